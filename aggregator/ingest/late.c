/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that come too late. A grant cannot be taken back: when an upload has failed, or the aggregator that made the
 * grant has ended, a file may still come as long as the grant lives. After that it is removed, unless it belongs to the
 * session by then. So is a file that the store did not remove when its upload had failed, and one that a frozen leader had
 * in its hands and put when it woke up. The sessions to look at survive a restart (late_list.h).
 */
#include <stdlib.h>
#include <string.h>

#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/ingest/late_list.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

/* the longest time from the begin of a request to its end: an agent gives up sooner */
#define PUT_MOST_NS STORE_FILE_PATIENCE_NS
/* After a start: sessions that ended so long before it are looked at. Their late files were not, if the aggregator was away
 * for less. */
#define LOOK_BACK_NS (3600 * NS_PER_S)
#define AGAIN_NS     (60 * NS_PER_S)

/* Where a file may still come. */
struct late_files {
	struct ingest *ingest;
	char *session, *run; /* NULL: all sessions that ended since then */
	int64_t since_unix_ns;
	struct loop_timer timer;
	bool is_on_worker;
	struct store *store;
	int rc;
	struct err e;
	TAILQ_ENTRY(late_files) entry;
};

static void late_free(struct late_files *l)
{
	TAILQ_REMOVE(&l->ingest->late, l, entry);
	loop_timer_cancel(l->ingest->env.loop, &l->timer);
	free(l->session);
	free(l->run);
	free(l);
}

static bool is_listed(const struct ingest *in, const char *session)
{
	const struct late_files *l;

	TAILQ_FOREACH (l, &in->late, entry) {
		if (l->session && !strcmp(l->session, session) && !l->is_on_worker)
			return true;
	}
	return false;
}

/* Nothing is left to remove. */
static void late_end(struct late_files *l)
{
	struct ingest *in = l->ingest;
	char *session = l->session;

	l->session = NULL;
	late_free(l);
	if (session && !is_listed(in, session))
		late_list_remove(in->env.spool, session);
	free(session);
}

static void run_late(void *arg)
{
	struct late_files *l = arg;

	l->rc = l->session ? session_remove_late(l->store, l->session, l->run, &l->e)
			   : session_remove_late_since(l->store, l->since_unix_ns, &l->e);
}

static void on_late(void *arg);

static void done_late(void *arg)
{
	struct late_files *l = arg;

	l->is_on_worker = false;
	if (!l->rc) {
		late_end(l);
		return;
	}
	log_warn("AGG-STORE", "session=%s action=remove-late again_s=%d reason=\"%s\"",
		 l->session ? l->session : "", (int)(AGAIN_NS / NS_PER_S), l->e.msg);
	loop_timer_in(l->ingest->env.loop, &l->timer, AGAIN_NS, on_late, l);
}

static void on_late(void *arg)
{
	struct late_files *l = arg;

	l->store = l->ingest->env.store->store;
	l->is_on_worker = true;
	jobs_work(l->ingest->env.jobs, run_late, done_late, l);
}

static struct late_files *late_new(struct ingest *in)
{
	struct late_files *l = xcalloc(1, sizeof(*l));

	l->ingest = in;
	TAILQ_INSERT_TAIL(&in->late, l, entry);
	loop_timer_in(in->env.loop, &l->timer,
		      in->env.by_grants ? GRANT_LIFE_NS + PUT_MOST_NS : AGAIN_NS, on_late, l);
	return l;
}

static void late_add(void *arg, const char *session, const char *run)
{
	struct late_files *l = late_new(arg);

	l->session = xstrdup(session);
	l->run = xstrdup(run);
}

/* One look for all uploads of a session that fail: it is after the end of each grant that lives now. */
void late_expect(struct ingest *in, const char *session, const char *run)
{
	if (is_listed(in, session))
		return;
	late_add(in, session, run);
	late_list_add(in->env.spool, session, run);
}

void late_start(struct ingest *in)
{
	if (in->env.by_grants || in->env.is_replica)
		late_new(in)->since_unix_ns = now_real_ns() - LOOK_BACK_NS;
	late_list_each(in->env.spool, late_add, in);
}

void late_stop(struct ingest *in)
{
	while (!TAILQ_EMPTY(&in->late))
		late_free(TAILQ_FIRST(&in->late));
}
