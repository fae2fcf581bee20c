/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/index_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/index_line.h"
#include "aggregator/sessions/sessions_impl.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "proto/names.h"

/* sessions that one job rebuilds: a stop of the aggregator waits for the job */
#define ROUND_SESSIONS 50
#define PAUSE_NS       (10 * NS_PER_S) /* after a failure */

/* ---- names ---- */

static void names_add(struct session_names *names, const char *session)
{
	if (names->n == names->cap) {
		names->cap = names->cap ? 2 * names->cap : 64;
		names->items = xrealloc(names->items, names->cap * sizeof(*names->items));
	}
	snprintf(names->items[names->n++], sizeof(session_name), "%s", session);
}

static void names_release(struct session_names *names)
{
	free(names->items);
	*names = (struct session_names){ 0 };
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void names_sort(struct session_names *names)
{
	sort_array(names->items, names->n, sizeof(*names->items), compare_names);
}

static bool names_have_once(const struct session_names *names, const char *session)
{
	const session_name *items = names->items, *found = NULL;

	if (names->n)
		found = bsearch(session, items, names->n, sizeof(*items), compare_names);
	return found && (found == items || strcmp(found[-1], session) != 0) &&
	       (found == items + names->n - 1 || strcmp(found[1], session) != 0);
}

/* ---- what is missing ---- */

struct listing {
	struct session_names committed, index, runs; /* by their manifests, and by their lines */
	struct session_keys outdated; /* entries of an older layout */
};

static bool add_committed(void *arg, const char *key, const struct store_stat *st)
{
	const char *name = key + strlen(SESSIONS), *rest = strchr(name, '/');
	session_name session;

	(void)st;
	if (!rest || strcmp(rest, "/manifest.json") || rest - name >= (int)sizeof(session))
		return true;
	snprintf(session, sizeof(session), "%.*s", (int)(rest - name), name);
	if (name_is_session(session))
		names_add(arg, session);
	return true;
}

/* "tutti/index/<20 digits>-<session>" */
static bool is_outdated(const char *key)
{
	const char *entry = key + strlen(INDEX);

	return strspn(entry, "0123456789") == 20 && entry[20] == '-' && name_is_session(entry + 21);
}

static bool add_indexed(void *arg, const char *key, const struct store_stat *st)
{
	struct listing *l = arg;
	struct session_line line;

	if (index_line_read(key, &line))
		names_add(&l->index, line.session);
	else if (is_outdated(key))
		session_keys_add(&l->outdated, key, st);
	return true;
}

static bool add_of_run(void *arg, const char *key, const struct store_stat *st)
{
	struct listing *l = arg;
	struct session_line line;

	(void)st;
	if (index_line_read(key, &line))
		names_add(&l->runs, line.session);
	return true;
}

static int list_all(struct store *s, struct listing *l, struct err *e)
{
	int rc = session_list_keys(s, INDEX, NULL, add_indexed, l, e);

	if (!rc)
		rc = session_list_keys(s, RUNS, NULL, add_of_run, l, e);
	if (!rc)
		rc = session_list_keys(s, SESSIONS, NULL, add_committed, &l->committed, e);
	names_sort(&l->index);
	names_sort(&l->runs);
	return rc;
}

static int find_missing(struct store *s, struct session_names *missing, struct err *e)
{
	struct listing l = { 0 };
	int rc = list_all(s, &l, e);

	for (size_t i = 0; i < l.committed.n && !rc; i++) {
		const char *session = l.committed.items[i];

		if (!names_have_once(&l.index, session) || !names_have_once(&l.runs, session))
			names_add(missing, session);
	}
	for (size_t i = 0; i < l.outdated.n && !rc; i++)
		rc = session_remove_key(s, l.outdated.items[i], e);
	if (rc)
		names_release(missing);
	names_sort(missing);
	names_release(&l.committed);
	names_release(&l.index);
	names_release(&l.runs);
	session_keys_release(&l.outdated);
	return rc;
}

/* ---- rounds ---- */

struct round_job {
	struct index_check *check; /* while the job works, it owns `missing` and `rebuilt` */
	int rc;
	struct err e;
};

/* Skips a session with a damaged manifest, and a deleted one. */
static int rebuild(struct index_check *c, const char *session, struct err *e)
{
	struct session_line line;
	int rc = session_index_rebuild(c->store, session, &line, e);

	if (rc == ERR_INVALID)
		log_error("AGG-INDEX", "session=%s reason=\"%s\"", session, e->msg);
	if (rc == ERR_INVALID || rc == ERR_NOT_FOUND)
		return 0;
	c->rebuilt += !rc;
	return rc;
}

static void run_round(void *arg)
{
	struct round_job *job = arg;
	struct index_check *c = job->check;

	if (!c->listed)
		job->rc = find_missing(c->store, &c->missing, &job->e);
	c->listed = !job->rc;
	for (int i = 0; i < ROUND_SESSIONS && c->missing.n && !job->rc; i++) {
		job->rc = rebuild(c, c->missing.items[c->missing.n - 1], &job->e);
		c->missing.n -= !job->rc;
	}
}

static void begin_round(void *arg);

static void done_round(void *arg)
{
	struct round_job *job = arg;
	struct index_check *c = job->check;

	if (job->rc)
		log_error("AGG-INDEX", "action=check reason=\"%s\"", job->e.msg);
	if (c->stopping) {
		free(job);
		return;
	}
	if (job->rc)
		loop_timer_in(c->jobs->loop, &c->timer, random_pause_ns(PAUSE_NS), begin_round, c);
	else if (c->missing.n)
		begin_round(c);
	else if (c->rebuilt)
		log_info("AGG-INDEX", "action=rebuilt sessions=%zu", c->rebuilt);
	free(job);
}

static void begin_round(void *arg)
{
	struct index_check *c = arg;
	struct round_job *job = xcalloc(1, sizeof(*job));

	job->check = c;
	jobs_work(c->jobs, run_round, done_round, job);
}

void index_check_start(struct index_check *c, struct jobs *jobs, struct store *store)
{
	*c = (struct index_check){ .jobs = jobs, .store = store };
	begin_round(c);
}

void index_check_stop(struct index_check *c)
{
	c->stopping = true;
	if (c->jobs)
		loop_timer_cancel(c->jobs->loop, &c->timer);
}

void index_check_release(struct index_check *c)
{
	names_release(&c->missing);
}
