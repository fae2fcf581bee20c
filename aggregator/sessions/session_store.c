/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/session_store.h"

#include <stdlib.h>

#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "storage/store.h"

/* Together less than 5 s: so late may /readyz be. */
#define PROBE_EVERY_NS (2 * NS_PER_S)
#define PROBE_LIMIT_NS (2500 * NS_PER_MS)
#define ROUND_FIRST_NS NS_PER_S
#define ROUND_MAX_NS   (10 * NS_PER_S)
#define READY_KEY      "tutti/ready"

/* ---- readiness ---- */

struct probe_job {
	struct session_store *sessions;
	struct store *store;
	int rc;
	struct err e;
};

static void begin_round(void *arg);

static int try_write(struct store *s, struct err *e)
{
	int64_t deadline_ns = store_within(PROBE_LIMIT_NS);
	int rc = store_put_bytes(s, READY_KEY, "ok\n", 3, 0, deadline_ns, e);

	return rc ? rc : store_remove(s, READY_KEY, deadline_ns, e);
}

static void update_ready(struct session_store *s)
{
	bool ready = s->writable && s->listed;

	if (ready && !s->ready)
		log_info("AGG-STORE", "ready=1");
	s->ready = ready;
}

static void set_writable(struct session_store *s, int rc, const struct err *e)
{
	bool was = s->writable;

	s->writable = !rc;
	if (rc)
		s->not_ready = *e;
	if (rc && (was || s->ready))
		log_error("AGG-STORE", "ready=0 reason=\"%s\"", e->msg);
	if (!was && s->writable && s->recovered && !s->swept)
		loop_timer_in(s->jobs->loop, &s->sweep_timer, 0, begin_round, s);
	update_ready(s);
}

static void begin_probe(void *arg);

static void run_probe(void *arg)
{
	struct probe_job *job = arg;

	job->rc = try_write(job->store, &job->e);
}

static void done_probe(void *arg)
{
	struct probe_job *job = arg;
	struct session_store *s = job->sessions;

	s->probing = false;
	if (!s->stopping) {
		set_writable(s, job->rc, &job->e);
		loop_timer_in(s->jobs->loop, &s->probe_timer, PROBE_EVERY_NS, begin_probe, s);
	}
	free(job);
}

/* A system call that hangs ignores the deadline. */
static void on_probe_limit(void *arg)
{
	struct session_store *s = arg;
	struct err e;

	err_set(&e, ERR_TIMEOUT, "the store does not answer");
	set_writable(s, e.code, &e);
}

static void begin_probe(void *arg)
{
	struct session_store *s = arg;
	struct probe_job *job = xcalloc(1, sizeof(*job));

	*job = (struct probe_job){ .sessions = s, .store = s->store };
	s->probing = true;
	loop_timer_in(s->jobs->loop, &s->probe_timer, PROBE_LIMIT_NS, on_probe_limit, s);
	jobs_work(s->jobs, run_probe, done_probe, job);
}

/* ---- what an earlier run left ---- */

struct round_job {
	struct session_store *sessions;
	struct store *store;
	json_t *recoverable;
	int swept, rc;
	struct err e;
};

static void note_round(struct session_store *s, int rc, const struct err *e)
{
	s->listed = s->sweep.listed;
	s->swept = !rc;
	if (!rc)
		return;
	s->failed_rounds++;
	if (!s->listed)
		s->not_ready = *e;
	log_error("AGG-STORE", "action=sweep round=%u left=%zu reason=\"%s\"", s->failed_rounds,
		  s->sweep.n_orphans + s->sweep.n_retries, e->msg);
}

static void schedule_round(struct session_store *s)
{
	int64_t pause_ns = ROUND_FIRST_NS;

	for (unsigned int i = 1; i < s->failed_rounds && pause_ns < ROUND_MAX_NS; i++)
		pause_ns *= 2;
	loop_timer_in(s->jobs->loop, &s->sweep_timer,
		      random_pause_ns(pause_ns < ROUND_MAX_NS ? pause_ns : ROUND_MAX_NS),
		      begin_round, s);
}

static void run_round(void *arg)
{
	struct round_job *job = arg;

	job->rc = session_sweep_round(job->store, &job->sessions->sweep, job->recoverable,
				      &job->swept, &job->e);
}

static void done_round(void *arg)
{
	struct round_job *job = arg;
	struct session_store *s = job->sessions;

	s->sweeping = false;
	if (!s->stopping) {
		note_round(s, job->rc, &job->e);
		if (json_array_size(job->recoverable))
			s->recovered(s->arg, job->recoverable);
		update_ready(s);
		if (job->rc)
			schedule_round(s);
	}
	json_decref(job->recoverable);
	free(job);
}

/* A store that takes no writes is not asked: its return begins a round. */
static void begin_round(void *arg)
{
	struct session_store *s = arg;
	struct round_job *job;

	if (s->sweeping || !s->writable)
		return;
	job = xcalloc(1, sizeof(*job));
	*job = (struct round_job){ .sessions = s, .store = s->store, .recoverable = json_array() };
	s->sweeping = true;
	jobs_work(s->jobs, run_round, done_round, job);
}

/* ---- life ---- */

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
	s->writable = !rc;
	if (rc) {
		s->not_ready = failure;
		log_error("AGG-STORE", "ready=0 reason=\"%s\"", failure.msg);
	} else {
		note_round(s,
			   session_sweep_round(s->store, &s->sweep, recoverable, &swept, &failure),
			   &failure);
	}
	s->ready = s->writable && s->listed;
	log_info("AGG-PART", "part=store state=up url=%s ready=%d swept=%d", url, s->ready, swept);
	return 0;
}

void session_store_start(struct session_store *s, session_recovered_fn recovered, void *arg)
{
	s->recovered = recovered;
	s->arg = arg;
	loop_timer_in(s->jobs->loop, &s->probe_timer, PROBE_EVERY_NS, begin_probe, s);
	if (!s->swept)
		schedule_round(s);
}

void session_store_stop(struct session_store *s)
{
	s->stopping = true;
	loop_timer_cancel(s->jobs->loop, &s->probe_timer);
	loop_timer_cancel(s->jobs->loop, &s->sweep_timer);
}

void session_store_close(struct session_store *s)
{
	session_sweep_release(&s->sweep);
	store_free(s->store);
	s->store = NULL;
}
