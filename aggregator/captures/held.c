/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents may hold captures that they should have dropped, because the aggregator was restarted, or a link
 * broke, before they were told. This tells them again. A file that a retry may fetch stays until its lease
 * ends. A session that is not in memory is looked up in the store, once for all hosts that report it within a
 * second. A session that the store does not know stays, too: it may be another fleet's.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "json/packed.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/ledger.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"
#include "proto/reasons.h"

#define LOOKUPS_MAX	64 /* look-ups at once; agents report again what is not looked up now */
#define LOOKUP_DELAY_NS NS_PER_S

/* The look-up of one session. While a worker has it, only the worker uses it, except `captures` and `timer`. */
struct held_lookup {
	struct captures *captures;
	char *session;
	struct store *store;
	struct loop_timer timer; /* until a worker has it */
	bool has_ended; /* the store has its manifest, or the record of its failure */
	struct pool kept;
	const char **kept_by; /* names of hosts whose files a retry may fetch, sorted */
	size_t n_kept_by;
	struct host_walk walk; /* when the worker is done: tells the agents */
	TAILQ_ENTRY(held_lookup) entry;
};

static void drop(struct host *host, const struct host_held *held)
{
	struct buf message = BUF_INIT;

	log_info("AGG-DROP", "session=%s host=%s recording=%d", held->session, host->name,
		 held->is_recording);
	if (held->undelivered)
		message_cancel(&message, held->session);
	else
		message_release(&message, held->session);
	host_send(host, &message);
	buf_release(&message);
}

/* ---- sessions that were deleted ---- */

static bool is_deleted(const struct captures *cs, const char *session)
{
	for (size_t i = 0; i < CAPTURES_DELETED; i++) {
		if (cs->deleted[i] && !strcmp(cs->deleted[i], session))
			return true;
	}
	return false;
}

static void visit_to_drop(void *cs, struct host *host)
{
	captures_drop_held(cs, host);
}

void captures_init_held(struct captures *cs)
{
	TAILQ_INIT(&cs->lookups);
	cs->dropping = (struct host_walk){ .loop = cs->env.loop,
					   .registry = cs->env.registry,
					   .visit = visit_to_drop,
					   .arg = cs };
}

void captures_session_deleted(struct captures *cs, const char *session)
{
	char **place = &cs->deleted[cs->n_deleted++ % CAPTURES_DELETED];

	free(*place);
	*place = xstrdup(session);
	host_walk_begin(&cs->dropping);
}

/* ---- sessions that are not in memory ---- */

static void lookup_free(struct held_lookup *l)
{
	TAILQ_REMOVE(&l->captures->lookups, l, entry);
	l->captures->n_lookups--;
	loop_timer_cancel(l->captures->env.loop, &l->timer);
	host_walk_cancel(&l->walk);
	pool_release(&l->kept);
	free(l->kept_by);
	free(l->session);
	free(l);
}

static bool may_be_fetched(const json_t *result)
{
	const struct reason *r = reason_find(json_get_text(result, "reason"));

	return !*json_get_text(result, "file") && r && r->flags & REASON_DELIVERABLE;
}

/* Keeps of the manifest only what is needed: its hosts are too many to be freed on the loop. */
static void read_results(struct held_lookup *l, const json_t *results)
{
	l->kept_by = xcalloc(json_array_size(results) + 1, sizeof(*l->kept_by));
	for (size_t i = 0; i < json_array_size(results); i++) {
		json_t *result = packed_get(results, i);

		if (may_be_fetched(result))
			l->kept_by[l->n_kept_by++] = pool_text(&l->kept,
							       json_get_text(result, "host"));
		json_decref(result);
	}
}

static void run_lookup(void *arg)
{
	struct held_lookup *l = arg;
	json_t *document = NULL;
	struct err e;
	int rc = session_load_manifest(l->store, l->session, &document, &e);

	if (!rc)
		read_results(l, json_object_get(document, "hosts"));
	else if (rc == ERR_NOT_FOUND)
		rc = session_load_failure(l->store, l->session, &document, &e);
	l->has_ended = !rc;
	json_decref(document);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_known(const struct captures *cs, const char *session)
{
	return capture_find((struct captures *)cs, session) ||
	       session_store_has_left(cs->env.store, session);
}

static void drop_by_records(void *arg, struct host *host)
{
	const struct held_lookup *l = arg;
	const struct captures *cs = l->captures;
	const struct host_held *held = host_find_held(host, l->session);
	const char *name = host->name;

	if (!held || !l->has_ended || cs->stopping || is_known(cs, l->session))
		return;
	if (!l->n_kept_by ||
	    !bsearch(&name, l->kept_by, l->n_kept_by, sizeof(*l->kept_by), compare_names))
		drop(host, held);
}

static void done_walk(void *arg)
{
	lookup_free(arg);
}

static void done_lookup(void *arg)
{
	struct held_lookup *l = arg;

	l->walk = (struct host_walk){ .loop = l->captures->env.loop,
				      .registry = l->captures->env.registry,
				      .visit = drop_by_records,
				      .done = done_walk,
				      .arg = l };
	host_walk_begin(&l->walk);
}

static void begin_lookup(void *arg)
{
	struct held_lookup *l = arg;

	jobs_request(l->captures->env.jobs, run_lookup, done_lookup, l);
}

static void look_up(struct captures *cs, const char *session)
{
	struct held_lookup *l;

	TAILQ_FOREACH (l, &cs->lookups, entry) {
		if (!strcmp(l->session, session))
			return;
	}
	if (cs->stopping || cs->n_lookups == LOOKUPS_MAX || !name_is_session(session))
		return;
	l = xcalloc(1, sizeof(*l));
	l->captures = cs;
	l->session = xstrdup(session);
	l->store = cs->env.store->store;
	TAILQ_INSERT_TAIL(&cs->lookups, l, entry);
	cs->n_lookups++;
	loop_timer_in(cs->env.loop, &l->timer, LOOKUP_DELAY_NS, begin_lookup, l);
}

void captures_forget_held(struct captures *cs)
{
	host_walk_cancel(&cs->dropping);
	while (!TAILQ_EMPTY(&cs->lookups))
		lookup_free(TAILQ_FIRST(&cs->lookups));
	for (size_t i = 0; i < CAPTURES_DELETED; i++)
		free(cs->deleted[i]);
}

/* ---- captures in memory ---- */

/* Whether the agent should have dropped the capture: it has missed the Cancel or Release. */
static bool must_drop(struct capture *c, const struct host *host, const struct host_held *held)
{
	struct capture_host *h = capture_find_host_by_name(c, host->name);

	if (c->state == CAP_LOST)
		return false;
	if (!h)
		return held->is_recording;
	if (capture_has_failed(c))
		return !capture_is_retry(c) || held->is_recording || h->old_result;
	if (c->cancelled)
		return ledger_is_durable(c->ledger);
	if (!capture_host_has_ended(h) || capture_host_may_hold_file(h))
		return false;
	return c->state == CAP_COMMITTED || !h->stored;
}

/* A session that is not in memory may be of an earlier run: nothing is certain before recovery is over. */
static void drop_unknown(struct captures *cs, struct host *host, const struct host_held *held)
{
	if (!cs->env.store->swept)
		return;
	if (held->is_recording || !held->undelivered)
		drop(host, held);
	else
		look_up(cs, held->session);
}

void captures_drop_held(struct captures *cs, struct host *host)
{
	for (size_t i = 0; i < host->n_held; i++) {
		const struct host_held *held = &host->held[i];
		struct capture *c = capture_find(cs, held->session);

		if (is_deleted(cs, held->session) || (c && must_drop(c, host, held)))
			drop(host, held);
		else if (!c)
			drop_unknown(cs, host, held);
	}
}
