/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/retention/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/pins.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"

#define SECOND_CHARS 19 /* of a session's name: its second */

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
	session_keys_release(&v->old);
	*v = (struct retention_view){ 0 };
}

struct look {
	struct store *store;
	const struct retention_rules *rules;
	int64_t now_ns;
	struct session_keys pins;
	struct session_keys ruled; /* sessions of runs with a rule of their own, sorted */
	struct session_keys aged; /* those of them that are old, newest first */
	struct session_keys
		left; /* that have a ledger, sorted; those in front of the walk, and older */
	struct session_keys counted; /* of them: that count already, the newest second first */
	const struct retention_run *run; /* whose sessions are being listed */
	bool is_full; /* the newer sessions have all the bytes */
	struct retention_view view; /* `old` newest first until the end */
	int rc;
	struct err *e;
};

/* False for a session that is not committed, was deleted meanwhile, or is damaged: it counts nothing. */
static bool load_line(struct look *l, const char *session, struct session_line *out)
{
	int rc = session_load_line(l->store, session, out, l->e);

	if (rc && rc != ERR_NOT_FOUND && rc != ERR_INVALID)
		l->rc = rc;
	return !rc;
}

/* By T0, which may be days after the time in the name: that is when the capture began to wait in the queue. */
static bool is_older(struct look *l, const char *session, const struct session_line *line,
		     int64_t keep_ns)
{
	struct session_line loaded;

	if (!keep_ns || l->now_ns - time_of_session_name(session) <= keep_ns)
		return false;
	if (!line && load_line(l, session, &loaded))
		line = &loaded;
	return !line || l->now_ns - line->t0_ns > keep_ns;
}

static bool on_ruled(void *arg, const char *session, const struct session_line *line)
{
	struct look *l = arg;

	return session_keys_add(&l->ruled, session, NULL) &&
	       (!is_older(l, session, line, l->run->keep_ns) ||
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

static uint64_t bytes_of(struct look *l, const char *session, const struct session_line *line)
{
	struct session_line loaded;

	if (line)
		return (uint64_t)line->bytes;
	return load_line(l, session, &loaded) ? (uint64_t)loaded.bytes : 0;
}

/* The index has the newest second first; sessions of one second in any order. */
static int compare_seconds(const char *session, const char *other)
{
	return strncmp(session, other, SECOND_CHARS);
}

/*
 * A crash leaves a committed session without an entry in the index, and with a ledger, until there is room for the
 * entry. Such sessions count before older ones and those of the same second, so that what is removed for the newest
 * one can be that room. They stay themselves. So does one of the same second with an entry that comes later.
 */
static void count_unlisted(struct look *l, const char *session)
{
	struct session_keys *left = &l->left;
	struct session_line line;

	while (left->n && !l->rc && compare_seconds(left->items[left->n - 1], session) >= 0) {
		const char *name = left->items[left->n - 1];

		if (strcmp(name, session) && load_line(l, name, &line)) {
			l->view.sessions++;
			l->view.bytes += l->rules->keep_bytes ? (uint64_t)line.bytes : 0;
			session_keys_add(&l->counted, name, NULL);
		}
		free(left->items[--left->n]);
	}
}

/* The last ones counted are the only ones of this second. */
static bool is_counted(const struct look *l, const char *session)
{
	for (size_t i = l->counted.n; i && !compare_seconds(l->counted.items[i - 1], session);
	     i--) {
		if (!strcmp(l->counted.items[i - 1], session))
			return true;
	}
	return false;
}

/* Newest first, so the bytes so far are those of this session and of all newer ones that stay. */
static bool on_session(void *arg, const char *session, const struct session_line *line)
{
	struct look *l = arg;
	struct retention_view *v = &l->view;
	bool is_pinned = session_keys_have(&l->pins, session);
	bool is_old = session_keys_have(&l->ruled, session)
			      ? session_keys_have(&l->aged, session)
			      : is_older(l, session, line, l->rules->keep_ns);
	uint64_t bytes_before;

	if (is_counted(l, session)) {
		v->pinned += is_pinned;
		return true;
	}
	count_unlisted(l, session);
	bytes_before = v->bytes;
	if (l->rules->keep_bytes)
		v->bytes += bytes_of(l, session, line);
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
	struct look l = { .store = s, .rules = rules, .now_ns = now_ns, .e = e };
	int rc = session_list_pins(s, &l.pins, e);

	if (!rc)
		rc = session_list_left(s, &l.left, e);
	if (!rc)
		rc = list_ruled(&l);
	if (!rc)
		rc = session_each(s, NULL, on_session, &l, e);
	rc = rc ? rc : l.rc;
	session_keys_release(&l.left);
	session_keys_release(&l.counted);
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
