/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/ledger.h"

#include <assert.h>
#include <stdlib.h>

#include "aggregator/sessions/ends.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/session_store.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "json/json_text.h"

#define PAUSE_FIRST_NS NS_PER_S
#define PAUSE_MAX_NS   (10 * NS_PER_S)
#define LOOP_HOSTS     1000 /* a record with more hosts is freed by a worker */

enum ledger_state { LEDGER_IDLE, LEDGER_WRITING, LEDGER_PAUSED, LEDGER_HELD, LEDGER_OVER };

struct ledger {
	struct ledger_opts opts;
	char *session, *run;
	unsigned int n; /* number of the last durable record */
	enum ledger_state state;
	struct ledger_change next; /* make == NULL: no change waits */
	json_t *record; /* the record of `next`, if a try has made it already; else NULL */
	bool end_is_durable; /* `record` is in the store, and its end is to be carried out */
	bool is_held; /* ledger_hold(): files may still come */
	unsigned int tries; /* failed tries since the last success */
	struct loop_timer timer;
	bool stopped;
};

/* One write. The worker sees this and nothing else. */
struct ledger_job {
	struct ledger *ledger;
	struct store *store;
	struct ledger_change change;
	json_t *record;
	json_t *head; /* what each record begins with */
	const char *session, *run; /* the ledger's */
	unsigned int n;
	bool is_held, end_is_durable, carried_out;
	int rc;
	struct err e;
};

struct ledger *ledger_open(const struct ledger_opts *opts)
{
	struct ledger *l = xcalloc(1, sizeof(*l));

	l->opts = *opts;
	l->session = xstrdup(opts->session);
	l->run = xstrdup(opts->run);
	l->n = opts->n;
	return l;
}

static void drop_next(struct ledger *l)
{
	if (l->next.make)
		l->next.release(l->next.arg);
	json_decref(l->record);
	l->next = (struct ledger_change){ 0 };
	l->record = NULL;
}

void ledger_close(struct ledger *l)
{
	if (!l)
		return;
	assert(l->state != LEDGER_WRITING);
	loop_timer_cancel(l->opts.sessions->jobs->loop, &l->timer);
	drop_next(l);
	free(l->session);
	free(l->run);
	free(l);
}

bool ledger_is_durable(const struct ledger *l)
{
	return l->end_is_durable || (l->n && !l->next.make && l->state != LEDGER_WRITING);
}

unsigned int ledger_number(const struct ledger *l)
{
	return l->n;
}

/* ---- one write ---- */

static json_t *head_json(const struct ledger *l)
{
	json_t *o = json_object(), *owner = json_object();

	json_put_int(owner, "epoch", l->opts.epoch + 1);
	json_put_text(owner, "nonce", l->opts.sessions->nonce);
	json_put_int(o, "version", LEDGER_VERSION);
	json_put_text(o, "session", l->session);
	json_put_text(o, "run", l->run);
	json_put(o, "owner", owner);
	return o;
}

static int make_record(struct ledger_job *job)
{
	json_t *made;
	int rc = job->change.make(job->change.arg, &made, &job->e);

	if (rc)
		return rc;
	job->record = json_copy(job->head);
	json_object_update(job->record, made);
	if (ledger_has_end(job->record))
		json_put_int(job->record, "version", LEDGER_END_VERSION);
	json_decref(made);
	return 0;
}

/* Another aggregator owns the session, and may have ended it: removes files that this run has stored since. */
static void remove_orphans(const struct ledger_job *job)
{
	struct err e;

	if (session_remove_orphans(job->store, job->session, job->run, &e))
		log_error("AGG-LEDGER", "session=%s reason=\"%s\"", job->session, e.msg);
}

static void put_record(struct ledger_job *job)
{
	bool has_end = ledger_has_end(job->record);

	if (job->is_held) /* a file that comes later is in no listing yet */
		json_object_del(json_object_get(job->record, "end"), "tidy");
	job->rc = has_end ? ledger_put_end(job->store, job->record, &job->n, &job->e)
			  : ledger_put(job->store, job->session, job->record, &job->n, &job->e);
	job->end_is_durable = has_end && !job->rc;
	if (job->rc == ERR_EXISTS)
		remove_orphans(job);
}

static void run_write(void *arg)
{
	struct ledger_job *job = arg;

	job->rc = job->record ? 0 : make_record(job);
	if (!job->rc && !job->end_is_durable)
		put_record(job);
	if (job->rc || !job->end_is_durable)
		return;
	if (job->is_held && ledger_end_removes_files(job->record))
		return;
	job->rc = job->is_held ? ledger_carry_out_early(job->store, job->record, job->n, &job->e)
			       : ledger_carry_out(job->store, job->record, job->n, &job->e);
	job->carried_out = !job->rc;
}

static void done_write(void *arg);

static void begin_write(void *arg)
{
	struct ledger *l = arg;
	struct ledger_job *job = xcalloc(1, sizeof(*job));

	*job = (struct ledger_job){
		.ledger = l,
		.store = l->opts.sessions->store,
		.change = l->next,
		.record = l->record,
		.head = head_json(l),
		.session = l->session,
		.run = l->run,
		.n = l->n,
		.is_held = l->is_held,
		.end_is_durable = l->end_is_durable,
	};
	l->next = (struct ledger_change){ 0 };
	l->record = NULL;
	l->state = LEDGER_WRITING;
	loop_timer_cancel(l->opts.sessions->jobs->loop, &l->timer);
	jobs_work(l->opts.sessions->jobs, run_write, done_write, job);
}

static int64_t pause_ns(unsigned int tries)
{
	int64_t ns = PAUSE_FIRST_NS;

	while (--tries && ns < PAUSE_MAX_NS)
		ns *= 2;
	return random_pause_ns(ns < PAUSE_MAX_NS ? ns : PAUSE_MAX_NS);
}

/* A try has failed: the change waits again, unless a newer one replaces it. No change comes after an end. */
static void put_back(struct ledger *l, struct ledger_job *job)
{
	if (l->next.make)
		return;
	l->next = job->change;
	l->record = job->record;
	job->change = (struct ledger_change){ 0 };
	job->record = NULL;
}

static void pause_writes(struct ledger *l, struct ledger_job *job)
{
	l->state = LEDGER_PAUSED;
	l->tries++;
	log_error("AGG-STORE", "session=%s action=%s try=%u reason=\"%s\"", l->session,
		  job->end_is_durable ? "end" : "ledger", l->tries, job->e.msg);
	put_back(l, job);
	if (l->stopped)
		log_warn("AGG-STORE", "session=%s action=ledger state=left", l->session);
	else
		loop_timer_in(l->opts.sessions->jobs->loop, &l->timer, pause_ns(l->tries),
			      begin_write, l);
}

/* Committed while files were on their way. */
static void leave_ledger(struct ledger *l)
{
	session_store_await(l->opts.sessions, l->session);
	if (!l->is_held)
		session_store_release(l->opts.sessions, l->session);
}

static void carry_out_when_released(struct ledger *l, struct ledger_job *job)
{
	put_back(l, job);
	l->state = LEDGER_HELD;
	if (!l->is_held)
		begin_write(l);
}

static void run_free(void *arg)
{
	struct ledger_job *job = arg;

	json_decref(job->record);
	json_decref(job->head);
	free(job);
}

static void done_free(void *arg)
{
	(void)arg;
}

/* A record of 10,000 hosts takes milliseconds to free. */
static void job_free(struct jobs *jobs, struct ledger_job *job)
{
	if (job->change.make)
		job->change.release(job->change.arg);
	if (json_array_size(ledger_hosts(job->record)) > LOOP_HOSTS)
		jobs_work(jobs, run_free, done_free, job);
	else
		run_free(job);
}

static void tell(const struct ledger *l, const struct ledger_job *job, bool end_became_durable)
{
	const struct ledger_events *events = l->opts.events;
	void *arg = l->opts.arg;

	if (job->carried_out) {
		events->ended(arg, job->record, job->change.arg);
		return;
	}
	if (end_became_durable || (!job->rc && ledger_is_durable(l)))
		events->durable(arg);
	if (job->rc == ERR_EXISTS)
		events->lost(arg, &job->e);
	else if (job->rc)
		events->refused(arg, &job->e);
}

static void done_write(void *arg)
{
	struct ledger_job *job = arg;
	struct ledger *l = job->ledger;
	struct jobs *jobs = l->opts.sessions->jobs;
	bool end_became_durable = job->end_is_durable && !l->end_is_durable;

	l->n = job->n;
	l->end_is_durable = job->end_is_durable;
	if (job->carried_out && job->is_held)
		leave_ledger(l);
	if (job->carried_out || job->rc == ERR_EXISTS) {
		l->state = LEDGER_OVER;
		drop_next(l);
	} else if (job->rc) {
		pause_writes(l, job);
	} else {
		l->state = LEDGER_IDLE;
		l->tries = 0;
		if (job->end_is_durable)
			carry_out_when_released(l, job);
		else if (l->next.make)
			begin_write(l);
	}
	tell(l, job, end_became_durable);
	job_free(jobs, job);
}

/* ---- changes ---- */

void ledger_change(struct ledger *l, const struct ledger_change *change)
{
	assert(!l->end_is_durable);
	drop_next(l);
	l->next = *change;
	if (l->state == LEDGER_OVER)
		drop_next(l);
	else if (l->state != LEDGER_WRITING)
		begin_write(l);
}

void ledger_hold(struct ledger *l, bool is_held)
{
	l->is_held = is_held;
	if (l->state == LEDGER_HELD && !is_held && !l->stopped)
		begin_write(l);
}

void ledger_stop(struct ledger *l)
{
	l->stopped = true;
	loop_timer_cancel(l->opts.sessions->jobs->loop, &l->timer);
}
