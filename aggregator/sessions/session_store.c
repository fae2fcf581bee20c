/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/session_store.h"

#include <stdlib.h>

#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "storage/store.h"

#define TRY_AGAIN_NS (5 * NS_PER_S)
#define TRY_LIMIT_NS (5 * NS_PER_S)
#define READY_KEY    "tutti/ready"

struct ready_job {
	struct session_store *sessions;
	struct store *store;
	int rc;
	struct err e;
};

static void check_ready(void *arg);

static int try_write(struct store *s, struct err *e)
{
	int64_t deadline_ns = store_within(TRY_LIMIT_NS);
	int rc = store_put_bytes(s, READY_KEY, "ok\n", 3, 0, deadline_ns, e);

	return rc ? rc : store_remove(s, READY_KEY, deadline_ns, e);
}

static void set_ready(struct session_store *s, int rc, const struct err *e)
{
	s->ready = !rc;
	if (!rc)
		return;
	s->not_ready = *e;
	log_error("AGG-STORE", "action=try reason=\"%s\"", e->msg);
	loop_timer_in(s->jobs->loop, &s->timer, TRY_AGAIN_NS, check_ready, s);
}

static void run_ready(void *arg)
{
	struct ready_job *job = arg;

	job->rc = try_write(job->store, &job->e);
}

static void done_ready(void *arg)
{
	struct ready_job *job = arg;

	if (!job->sessions->stopping)
		set_ready(job->sessions, job->rc, &job->e);
	free(job);
}

static void check_ready(void *arg)
{
	struct session_store *s = arg;
	struct ready_job *job = xcalloc(1, sizeof(*job));

	*job = (struct ready_job){ .sessions = s, .store = s->store };
	jobs_work(s->jobs, run_ready, done_ready, job);
}

int session_store_open(struct session_store *s, struct jobs *jobs, const char *url,
		       json_t *recoverable, struct err *e)
{
	struct err failure = { 0 };
	int swept = 0, rc = store_open(&s->store, url, e);

	if (rc)
		return rc;
	/* A sweep without the claim would remove captures of another aggregator. */
	rc = store_claim(s->store, e);
	if (rc) {
		store_free(s->store);
		return rc;
	}
	s->jobs = jobs;
	rc = try_write(s->store, &failure);
	if (!rc && session_sweep(s->store, recoverable, &swept, &failure))
		log_error("AGG-STORE", "action=sweep reason=\"%s\"", failure.msg);
	set_ready(s, rc, &failure);
	log_info("AGG-PART", "part=store state=up url=%s ready=%d swept=%d", url, s->ready, swept);
	return 0;
}

void session_store_stop(struct session_store *s)
{
	s->stopping = true;
	loop_timer_cancel(s->jobs->loop, &s->timer);
}

void session_store_close(struct session_store *s)
{
	store_free(s->store);
	s->store = NULL;
}
