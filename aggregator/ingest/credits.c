/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants that go with upload credits. A host with one file would use its credit to call Ingest and to ask for the grant there: that
 * call costs more than all else that a fleet's capture by grants sends. Here the credit has the grant, and the host's result says
 * that it was used. Whatever goes wrong, at the store or here, the agent calls Ingest as if there had been none (granted.c).
 * Grants that must be revoked (open_grants.c) are made there alone.
 */
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"

/* How long the grants of a batch may take together: what comes meanwhile waits for it. */
#define BATCH_PATIENCE_NS (5 * NS_PER_S)

/* A credit that waits for its grant: at most one of each host of a capture. */
struct credit {
	char *session, *host;
	uint64_t instance;
	char key[SESSION_KEY_BYTES];
	struct store_grant_request req;
	struct store_grant grant;
	int rc;
	TAILQ_ENTRY(credit) entry;
};

/* What one worker has. */
struct batch {
	struct ingest *ingest;
	struct store *store;
	struct credit_list credits;
};

static void credit_free(struct credit *cr)
{
	store_grant_release(&cr->grant);
	free(cr->session);
	free(cr->host);
	free(cr);
}

/* Errors that say nothing of the store: the next grant may be made. */
static bool is_of_file(int rc)
{
	return rc == ERR_EXISTS || rc == ERR_LIMIT;
}

/* A store that is slow or away is not asked for each of them: those after the first error go without. */
static void run_grant(void *arg)
{
	struct batch *b = arg;
	int64_t deadline_mono_ns = store_within(BATCH_PATIENCE_NS);
	struct credit *cr;
	struct err e;
	int rc = 0;

	TAILQ_FOREACH (cr, &b->credits, entry) {
		cr->req.deadline_mono_ns = deadline_mono_ns;
		cr->rc = rc ? rc : store_grant(b->store, &cr->req, &cr->grant, &e);
		if (!is_of_file(cr->rc))
			rc = cr->rc;
	}
}

/* ---- on the loop ---- */

/* The agent may offer another file since then. */
static bool is_for(const struct credit *cr, const struct capture_host *h)
{
	return cr->req.len == h->bytes && cr->req.crc32c == h->crc32c;
}

/* The credit may have gone to another host meanwhile, and have come back. */
static void send(struct ingest *in, struct credit *cr)
{
	struct capture *c = capture_find(in->env.captures, cr->session);
	struct capture_host *h = c ? capture_find_host(c, cr->host, cr->instance) : NULL;
	Tutti__V1__Grant m;

	if (!h)
		return;
	h->granting = 0;
	if (!capture_is_open(c) || capture_host_has_ended(h) || h->credit != CREDIT_GRANTED)
		return;
	if (cr->rc || !is_for(cr, h)) { /* the call of Ingest finds out why, and says so */
		capture_host_send_credit(h, NULL);
		return;
	}
	m = granted_message_of(&cr->grant, 1);
	in->stats.grants++;
	capture_host_send_credit(h, &m);
}

static void grant_next(struct ingest *in);

static void done_grant(void *arg)
{
	struct batch *b = arg;
	struct ingest *in = b->ingest;
	struct credit *cr;

	while ((cr = TAILQ_FIRST(&b->credits))) {
		TAILQ_REMOVE(&b->credits, cr, entry);
		send(in, cr);
		credit_free(cr);
	}
	free(b);
	in->is_granting = false;
	grant_next(in);
}

/* One worker at a time makes all that wait: credits come by the hundred. */
static void grant_next(struct ingest *in)
{
	struct batch *b;

	if (in->is_granting || TAILQ_EMPTY(&in->credits))
		return;
	b = xcalloc(1, sizeof(*b));
	b->ingest = in;
	b->store = in->env.store->store;
	TAILQ_INIT(&b->credits);
	TAILQ_CONCAT(&b->credits, &in->credits, entry);
	in->is_granting = true;
	jobs_work(in->env.jobs, run_grant, done_grant, b);
}

static void on_credit(void *arg, struct capture_host *h)
{
	struct ingest *in = arg;
	char name[NAME_FILE_BYTES];
	struct credit *cr;

	if (!in->env.by_grants || h->stored || store_revokes(in->env.store->store)) {
		capture_host_send_credit(h, NULL);
		return;
	}
	if (h->granting == h->instance)
		return; /* the credit came back to it: the one that waits is this one's */
	h->granting = h->instance;
	cr = xcalloc(1, sizeof(*cr));
	cr->session = xstrdup(h->capture->session);
	cr->host = xstrdup(h->name);
	cr->instance = h->instance;
	name_of_file(h->name, 1, name);
	session_file_key(h->capture->session, h->capture->run, name, cr->key);
	cr->req = (struct store_grant_request){ .key = cr->key,
						.len = h->bytes,
						.crc32c = h->crc32c,
						.life_ns = GRANT_LIFE_NS,
						.is_new = granted_is_first(h) };
	h->was_granted = true;
	TAILQ_INSERT_TAIL(&in->credits, cr, entry);
	grant_next(in);
}

static void on_used(void *arg)
{
	struct ingest *in = arg;

	in->stats.uploads++;
}

void credits_start(struct ingest *in)
{
	const struct capture_granter granter = { .grant = on_credit, .used = on_used, .arg = in };

	TAILQ_INIT(&in->credits);
	captures_set_granter(in->env.captures, &granter);
}

void credits_stop(struct ingest *in)
{
	struct credit *cr;

	captures_set_granter(in->env.captures, &(struct capture_granter){ 0 });
	while ((cr = TAILQ_FIRST(&in->credits))) {
		TAILQ_REMOVE(&in->credits, cr, entry);
		credit_free(cr);
	}
}

void credits_end(struct ingest *in, const struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->hosts[i].was_granted && !c->hosts[i].stored) {
			late_expect(in, c->session, c->run);
			return;
		}
	}
}
