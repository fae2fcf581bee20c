/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/retention/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/pins.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "proto/names.h"

/* ---- rules ---- */

static int add_run(struct retention_rules *rules, const char *text, struct err *e)
{
	const char *sign = strrchr(text, '=');
	struct retention_run rule = { 0 };
	int rc;

	if (!sign)
		return err_set(e, ERR_INVALID, "retain-run '%.100s': use RUN=TIME, like nightly=7d",
			       text);
	rule.run = xasprintf("%.*s", (int)(sign - text), text);
	rc = *rule.run ? name_check_run(rule.run, e) : 0;
	if (!rc)
		rc = conf_parse_time(sign + 1, &rule.keep_ns, e);
	if (!rc && rule.keep_ns < 0)
		rc = err_set(e, ERR_INVALID, "a time is not negative");
	if (rc) {
		free(rule.run);
		return err_prefix(e, "retain-run '%.100s'", text);
	}
	rules->runs = xrealloc(rules->runs, (rules->n_runs + 1) * sizeof(rule));
	rules->runs[rules->n_runs++] = rule;
	return 0;
}

int retention_add_runs(struct retention_rules *rules, const struct conf_list *texts, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < texts->n && !rc; i++)
		rc = add_run(rules, texts->items[i], e);
	return rc;
}

void retention_rules_release(struct retention_rules *rules)
{
	for (size_t i = 0; i < rules->n_runs; i++)
		free(rules->runs[i].run);
	free(rules->runs);
	*rules = (struct retention_rules){ 0 };
}

bool retention_has_rules(const struct retention_rules *rules)
{
	return rules->keep_ns || rules->keep_bytes || rules->n_runs;
}

/* ---- a look ---- */

void retention_view_release(struct retention_view *v)
{
	free(v->sizes);
	session_keys_release(&v->old);
	*v = (struct retention_view){ 0 };
}

struct look {
	struct store *store;
	const struct retention_rules *rules;
	int64_t now_ns;
	const struct retention_view *before;
	size_t place; /* in the sizes of `before`: the same order, so one pass finds all */
	struct session_keys pins;
	struct session_keys ruled; /* sessions of runs with a rule of their own, sorted */
	struct session_keys aged; /* those of them that are old, newest first */
	const struct retention_run *run; /* whose sessions are being listed */
	bool is_full; /* the newer sessions have all the bytes */
	struct retention_view view; /* `old` newest first until the end */
	int rc;
	struct err *e;
};

static bool is_older(const struct look *l, const char *session, int64_t keep_ns)
{
	return keep_ns && l->now_ns - time_of_session_name(session) > keep_ns;
}

static bool on_ruled(void *arg, const char *session, const char *tag)
{
	struct look *l = arg;

	(void)tag;
	return session_keys_add(&l->ruled, session, NULL) &&
	       (!is_older(l, session, l->run->keep_ns) ||
		session_keys_add(&l->aged, session, NULL));
}

static int compare_items(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_keys(struct session_keys *k)
{
	sort_array(k->items, k->n, sizeof(*k->items), compare_items);
}

static int list_ruled(struct look *l)
{
	int rc = 0;

	for (size_t i = 0; i < l->rules->n_runs && !rc; i++) {
		l->run = &l->rules->runs[i];
		rc = session_each(l->store, l->run->run, on_ruled, l, l->e);
	}
	sort_keys(&l->ruled);
	sort_keys(&l->aged);
	return rc;
}

/* From the earlier look, if the session's summary is the same. */
static bool find_known(struct look *l, const char *session, uint64_t hash, uint64_t *bytes)
{
	const struct retention_view *before = l->before;

	/* names sort by time, and the walk goes from the newest to the oldest */
	while (l->place < before->n && strcmp(before->sizes[l->place].session, session) > 0)
		l->place++;
	if (l->place == before->n || strcmp(before->sizes[l->place].session, session) != 0 ||
	    before->sizes[l->place].tag_hash != hash)
		return false;
	*bytes = before->sizes[l->place].bytes;
	return true;
}

static int read_bytes(struct look *l, const char *session, uint64_t *bytes)
{
	json_t *summary;
	int rc = session_load_summary(l->store, session, &summary, l->e);

	*bytes = 0;
	if (rc)
		return rc;
	*bytes = (uint64_t)json_get_int(summary, "bytes");
	json_decref(summary);
	return 0;
}

/* A session that was deleted meanwhile, or that is damaged, counts nothing. */
static int add_size(struct look *l, const char *session, const char *tag)
{
	struct retention_size size = { .tag_hash = hash_text(tag) };
	int rc = 0;

	snprintf(size.session, sizeof(size.session), "%s", session);
	if (!find_known(l, session, size.tag_hash, &size.bytes))
		rc = read_bytes(l, session, &size.bytes);
	if (rc == ERR_NOT_FOUND || rc == ERR_INVALID)
		rc = 0;
	l->view.bytes += size.bytes;
	if (rc)
		return rc;
	l->view.sizes = xrealloc(l->view.sizes, (l->view.n + 1) * sizeof(size));
	l->view.sizes[l->view.n++] = size;
	return 0;
}

/* Newest first, so the bytes so far are those of this session and of all newer ones that stay. */
static bool on_session(void *arg, const char *session, const char *tag)
{
	struct look *l = arg;
	struct retention_view *v = &l->view;
	bool is_pinned = session_keys_have(&l->pins, session);
	uint64_t bytes_before = v->bytes;
	bool is_old = session_keys_have(&l->ruled, session)
			      ? session_keys_have(&l->aged, session)
			      : is_older(l, session, l->rules->keep_ns);

	if (l->rules->keep_bytes)
		l->rc = add_size(l, session, tag);
	if (l->rc)
		return false;
	l->is_full = l->is_full || (!is_old && v->sessions && l->rules->keep_bytes &&
				    v->bytes > l->rules->keep_bytes);
	is_old = is_old || l->is_full;
	v->sessions++;
	v->pinned += is_pinned;
	if (is_old && !is_pinned) {
		v->bytes = bytes_before;
		session_keys_add(&v->old, session, NULL);
	}
	return true;
}

static void reverse(struct session_keys *k)
{
	for (size_t i = 0; i < k->n / 2; i++) {
		char *swap = k->items[i];

		k->items[i] = k->items[k->n - 1 - i];
		k->items[k->n - 1 - i] = swap;
	}
}

int retention_look(struct store *s, const struct retention_rules *rules, int64_t now_ns,
		   struct retention_view *view, struct err *e)
{
	struct look l = { .store = s, .rules = rules, .now_ns = now_ns, .before = view, .e = e };
	int rc = session_list_pins(s, &l.pins, e);

	if (!rc)
		rc = list_ruled(&l);
	if (!rc)
		rc = session_each(s, NULL, on_session, &l, e);
	rc = rc ? rc : l.rc;
	session_keys_release(&l.pins);
	session_keys_release(&l.ruled);
	session_keys_release(&l.aged);
	if (rc) {
		retention_view_release(&l.view);
		return rc;
	}
	reverse(&l.view.old);
	retention_view_release(view);
	*view = l.view;
	return 0;
}
