/* SPDX-License-Identifier: Apache-2.0 */
/* The list of captures; window, deadline and commit of a capture as a whole. */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/evidence/causality.h"
#include "json/json_text.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "proto/reasons.h"

#define MIN_WINDOW_NS  NS_PER_MS
#define PAUSE_FIRST_NS NS_PER_S
#define PAUSE_MAX_NS   (10 * NS_PER_S)

static void on_due(void *arg);

/* ---- all of them ---- */

struct captures *captures_new(const struct captures_env *env)
{
	struct captures *cs = xcalloc(1, sizeof(*cs));

	cs->env = *env;
	TAILQ_INIT(&cs->all);
	TAILQ_INIT(&cs->waiting);
	TAILQ_INIT(&cs->granted);
	TAILQ_INIT(&cs->queue);
	return cs;
}

void capture_insert(struct capture *c)
{
	struct captures *cs = c->captures;

	TAILQ_INSERT_HEAD(&cs->all, c, entry);
	cs->n_active++;
}

void capture_remove(struct capture *c)
{
	struct captures *cs = c->captures;

	capture_queue_leave(c);
	if (capture_has_ended(c))
		cs->n_ended--;
	else
		cs->n_active--;
	loop_timer_cancel(cs->env.loop, &c->timer);
	TAILQ_REMOVE(&cs->all, c, entry);
	capture_free(c);
}

void captures_free(struct captures *cs)
{
	if (!cs)
		return;
	cs->n_watches = 0; /* their owners are freed */
	while (!TAILQ_EMPTY(&cs->all))
		capture_remove(TAILQ_FIRST(&cs->all));
	loop_timer_cancel(cs->env.loop, &cs->queue_timer);
	loop_timer_cancel(cs->env.loop, &cs->credit_timer);
	free(cs->watches);
	free(cs);
}

struct capture *capture_find(struct captures *cs, const char *session)
{
	struct capture *c;

	TAILQ_FOREACH (c, &cs->all, entry) {
		if (!strcmp(c->session, session))
			return c;
	}
	return NULL;
}

bool capture_has_ended(const struct capture *c)
{
	return c->state >= CAP_COMMITTED;
}

void captures_watch(struct captures *cs, void (*fn)(void *arg, struct capture *c), void *arg)
{
	cs->watches = xrealloc(cs->watches, (cs->n_watches + 1) * sizeof(*cs->watches));
	cs->watches[cs->n_watches++] = (struct capture_watch){ fn, arg };
}

void capture_notify(struct capture *c)
{
	struct captures *cs = c->captures;

	for (size_t i = 0; i < cs->n_watches; i++)
		cs->watches[i].fn(cs->watches[i].arg, c);
}

struct captures_count captures_count(const struct captures *cs)
{
	struct captures_count n = { .active = cs->n_active - cs->n_queued, .queued = cs->n_queued };
	const struct capture_host *h;

	TAILQ_FOREACH (h, &cs->waiting, credits)
		n.waiting++;
	return n;
}

const struct captures_stats *captures_stats(const struct captures *cs)
{
	return &cs->stats;
}

static size_t count_ended_hosts(const struct captures *cs)
{
	const struct capture *c;
	size_t n = 0;

	TAILQ_FOREACH (c, &cs->all, entry)
		n += capture_has_ended(c) ? c->n_hosts : 0;
	return n;
}

static void drop_oldest_ended(struct captures *cs)
{
	struct capture *c = TAILQ_LAST(&cs->all, capture_list);

	while (!capture_has_ended(c))
		c = TAILQ_PREV(c, capture_list, entry);
	capture_remove(c);
}

/* ---- the end ---- */

static size_t count_hosts(const struct capture *c, enum host_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_hosts; i++)
		n += c->hosts[i].state == state;
	return n;
}

/* A file that a retry may request is not released: the agent keeps it until its lease ends. */
static void send_release(const struct capture *c)
{
	struct buf message = BUF_INIT;

	message_release(&message, c->session);
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->state != CAP_COMMITTED || !capture_host_may_hold_file(&c->hosts[i]))
			capture_host_send(&c->hosts[i], &message);
	}
	buf_release(&message);
}

static void end_capture(struct capture *c, enum capture_state state)
{
	struct captures *cs = c->captures;
	size_t failed = count_hosts(c, HOST_FAILED);

	c->state = state;
	c->store_error.code = 0;
	if (state == CAP_COMMITTED)
		c->not_durable.code = 0; /* the manifest has it */
	loop_timer_cancel(cs->env.loop, &c->timer);
	cs->n_active--;
	cs->n_ended++;
	TAILQ_REMOVE(&cs->all, c, entry);
	TAILQ_INSERT_HEAD(&cs->all, c, entry);
	cs->stats.hosts_failed += failed;
	if (state == CAP_COMMITTED) {
		cs->stats.committed++;
		log_info("AGG-COMMITTED",
			 "session=%s run=\"%s\" complete=%zu partial=%zu failed=%zu", c->session,
			 c->run, count_hosts(c, HOST_COMPLETE), count_hosts(c, HOST_PARTIAL),
			 failed);
	} else {
		cs->stats.failed++;
		log_warn("AGG-FAILED", "session=%s run=\"%s\" failed=%zu reason=\"%s\"", c->session,
			 c->run, failed, c->error.msg);
	}
	send_release(c);
	capture_notify_durable(c);
	capture_notify(c);
	capture_queue_schedule(cs);
	while (cs->n_ended > ENDED_KEPT ||
	       (cs->n_ended > 1 && count_ended_hosts(cs) > ENDED_HOSTS_KEPT))
		drop_oldest_ended(cs);
}

/* ---- work on the store ---- */

void store_job_begin(struct capture *c, json_t *doc_taken, loop_fn run, loop_fn done)
{
	struct store_job *job = xcalloc(1, sizeof(*job));

	*job = (struct store_job){
		.capture = c,
		.store = c->captures->env.store->store,
		.session = xstrdup(c->session),
		.run = xstrdup(c->run),
		.t0_ns = c->t0_ns,
		.causality_ns = c->captures->env.causality_ns,
		.doc = doc_taken,
		.second_try = c->end_tries > 1,
		.copy = c->state == CAP_COMMITTING ? capture_copy(c) : NULL,
	};
	jobs_work(c->captures->env.jobs, run, done, job);
}

static void set_not_durable(struct capture *c, const struct err *why)
{
	err_set(&c->not_durable, ERR_IO, "done, but a restart of the aggregator may undo it: %s",
		why->msg);
}

void store_job_note(struct store_job *job, const char *action)
{
	struct capture *c = job->capture;

	c->not_durable = (struct err){ 0 };
	if (!job->rc)
		return;
	log_error("AGG-STORE", "session=%s action=%s reason=\"%s\"", c->session, action,
		  job->e.msg);
	set_not_durable(c, &job->e);
}

void store_job_free(struct store_job *job)
{
	if (job->copy)
		capture_copy_free(job->copy);
	free(job->session);
	free(job->run);
	json_decref(job->doc);
	free(job);
}

int64_t store_job_pause_ns(unsigned int tries)
{
	int64_t pause_ns = PAUSE_FIRST_NS;

	while (--tries && pause_ns < PAUSE_MAX_NS)
		pause_ns *= 2;
	return random_pause_ns(pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
}

/* Nothing that is stored is removed meanwhile. While the aggregator stops there is no next try: the next start
 * carries the capture on. */
static void retry_end(struct store_job *job, const char *action, loop_fn fn)
{
	struct capture *c = job->capture;

	c->store_error = job->e;
	log_error("AGG-STORE", "session=%s action=%s try=%u reason=\"%s\"", c->session, action,
		  c->end_tries, job->e.msg);
	if (c->captures->stopping)
		log_warn("AGG-STORE", "session=%s action=%s state=left", c->session, action);
	else
		loop_timer_in(c->captures->env.loop, &c->timer, store_job_pause_ns(c->end_tries),
			      fn, c);
	capture_notify(c);
}

/* The record first: from then on no start carries the capture on. On a full store only removing its files makes
 * place for the record. */
static void run_discard(void *arg)
{
	struct store_job *job = arg;

	job->doc = capture_failure_json(job->copy);
	job->rc = session_record_failure(job->store, job->session, job->doc, &job->e);
	if (job->rc == ERR_FULL) {
		job->rc = session_remove_files(job->store, job->session, job->run, &job->e);
		if (!job->rc)
			job->rc = session_record_failure(job->store, job->session, job->doc,
							 &job->e);
	}
	if (!job->rc)
		job->rc = session_discard(job->store, job->session, job->run, job->t0_ns, &job->e);
}

static void discard(void *arg);

static void done_discard(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;

	if (!job->rc) {
		c->not_durable.code = 0;
		end_capture(c, CAP_FAILED);
	} else {
		if (!c->not_durable.code)
			set_not_durable(c, &job->e);
		capture_notify_durable(c);
		retry_end(job, "discard", discard);
	}
	store_job_free(job);
}

/* Removes what a failed capture has stored. After a failed retry the session is as it was before the retry. */
static void discard(void *arg)
{
	struct capture *c = arg;

	c->end_tries++;
	if (capture_is_retry(c))
		store_job_begin(c, capture_retry_hosts(c), capture_retry_run_undo, done_discard);
	else
		store_job_begin(c, NULL, run_discard, done_discard);
}

static void run_commit(void *arg)
{
	struct store_job *job = arg;

	capture_store_notes(job->store, job->copy);
	job->doc = capture_manifest_json(job->copy);
	causality_check(job->store, job->doc, job->causality_ns);
	job->rc = session_commit(job->store, job->session, job->doc, &job->e);
	/* An earlier try may have failed after the manifest was in place: the manifest is this capture's own. */
	if (job->rc == ERR_EXISTS && job->second_try)
		job->rc = 0;
}

static void commit(void *arg);

static void done_commit(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;

	if (!job->rc) {
		for (size_t i = 0; i < c->n_hosts; i++) /* notes may have made a file longer */
			c->hosts[i].bytes = c->hosts[i].bytes_done = job->copy->hosts[i].bytes;
		json_array_clear(c->warnings); /* the causality check may have added one */
		json_array_extend(c->warnings, json_object_get(job->doc, "warnings"));
		end_capture(c, CAP_COMMITTED);
	} else {
		retry_end(job, "commit", commit);
	}
	store_job_free(job);
}

static void commit(void *arg)
{
	struct capture *c = arg;

	c->end_tries++;
	store_job_begin(c, NULL, capture_is_retry(c) ? capture_retry_run_commit : run_commit,
			done_commit);
}

void captures_begin_stop(struct captures *cs)
{
	cs->stopping = true;
}

void captures_refuse_waiting(struct captures *cs)
{
	struct capture *c;

	TAILQ_FOREACH (c, &cs->all, entry) {
		if (!c->n_durable_watches)
			continue;
		err_set(&c->not_durable, ERR_BUSY, "the aggregator is stopping");
		capture_notify_durable(c);
	}
}

void captures_finish_stop(struct captures *cs)
{
	struct capture *c;

	TAILQ_FOREACH (c, &cs->all, entry) {
		if (capture_has_ended(c))
			continue;
		loop_timer_cancel(cs->env.loop, &c->timer);
		log_warn("AGG-LEFT",
			 "session=%s reason=\"the aggregator stops: the next start carries "
			 "it on\"",
			 c->session);
	}
}

static size_t count_stored(const struct capture *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_hosts; i++)
		n += c->hosts[i].stored;
	return n;
}

/* Commits, or discards the capture. All its hosts have ended. */
void capture_finish(struct capture *c)
{
	capture_queue_leave(c);
	loop_timer_cancel(c->captures->env.loop, &c->timer);
	capture_step_finish(c);
	c->state = CAP_COMMITTING;
	capture_notify(c);
	if (count_stored(c) && !c->cancelled && !c->error.code) {
		commit(c);
		return;
	}
	if (c->cancelled)
		err_set(&c->error, ERR_CANCELLED, "cancelled");
	else if (!c->error.code)
		err_set(&c->error, ERR_NOT_FOUND, "no host delivered a file");
	/* A request by step that was refused has no record: it has an error for an answer. */
	if (c->planned || !c->by_step)
		discard(c);
	else
		end_capture(c, CAP_FAILED);
}

bool capture_finish_if_ended(struct capture *c)
{
	if (c->n_ended < c->n_hosts)
		return false;
	capture_finish(c);
	return true;
}

/* A write is on its way to the store. Its completion handles what changes meanwhile. */
bool capture_is_being_stored(const struct capture *c)
{
	return c->storing || (c->planned && !c->armed && !(c->plan_done && c->state == CAP_QUEUED));
}

void capture_host_ended(struct capture_host *h)
{
	struct capture *c = h->capture;

	c->n_ended++;
	capture_queue_schedule(c->captures);
	if (c->n_ended == c->n_hosts && !capture_is_being_stored(c))
		capture_finish(c);
	else
		capture_notify(c);
}

/* ---- the window ---- */

static void fail_missing(struct capture *c)
{
	char grace[80];

	snprintf(grace, sizeof(grace), "the grace of %.3g s after the window (--grace gives more)",
		 (double)c->grace_ns / NS_PER_S);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (h->stored)
			capture_host_failed(h, REASON_TIMEOUT,
					    "the agent's report did not come within %s", grace);
		else if (h->upload_error[0])
			capture_host_failed(h, REASON_UPLOAD, "%s", h->upload_error);
		else if (h->state == HOST_UPLOADING)
			capture_host_failed(h, REASON_STALLED,
					    "%" PRIu64 " of %" PRIu64
					    " bytes had come within %s, and no more came",
					    h->bytes_done, h->bytes, grace);
		else
			capture_host_failed(h, REASON_TIMEOUT, "nothing was stored within %s",
					    grace);
	}
}

void capture_fail_all(struct capture *c, const char *reason, const char *detail)
{
	for (size_t i = 0; i < c->n_hosts; i++)
		capture_host_failed(&c->hosts[i], reason, "%s", detail);
}

static void fail_unarmed(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->hosts[i].state == HOST_ARMING && !c->hosts[i].needs_recording)
			capture_host_failed(&c->hosts[i], REASON_UNRESPONSIVE,
					    "the agent did not answer in time");
	}
}

static void fail_disconnected(struct capture *c, int64_t now_ns)
{
	c->next_reconnect_by_ns = INT64_MAX;
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (!h->reconnect_by_ns || capture_host_has_ended(h))
			continue;
		if (h->reconnect_by_ns <= now_ns)
			capture_host_failed(h, REASON_LOST, "the agent's connection ended");
		else if (h->reconnect_by_ns < c->next_reconnect_by_ns)
			c->next_reconnect_by_ns = h->reconnect_by_ns;
	}
}

static void set_state(struct capture *c, enum capture_state state)
{
	if (c->state >= state)
		return;
	c->state = state;
	capture_notify(c);
}

static void wake_at(struct capture *c, int64_t now_ns)
{
	const int64_t due[] = { c->t0_ns, c->arm_by_ns, c->t0_ns + c->duration_ns, c->deadline_ns,
				c->next_reconnect_by_ns };
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(due); i++) {
		if (due[i] > now_ns && due[i] < next)
			next = due[i];
	}
	if (next != INT64_MAX)
		loop_timer_in(c->captures->env.loop, &c->timer, next - now_ns, on_due, c);
}

/* Does all that is due by now; the capture may pass through several states. */
static void on_due(void *arg)
{
	struct capture *c = arg;
	int64_t now_ns = captures_now(c->captures);

	if (c->captures->stopping)
		return;
	if (now_ns >= c->t0_ns)
		set_state(c, CAP_RUNNING);
	if (now_ns >= c->t0_ns + c->duration_ns)
		set_state(c, CAP_UPLOADING);
	if (now_ns >= c->next_reconnect_by_ns)
		fail_disconnected(c, now_ns);
	if (now_ns >= c->arm_by_ns)
		fail_unarmed(c);
	if (now_ns >= c->deadline_ns && !capture_extend_deadline(c, now_ns))
		fail_missing(c);
	if (c->state < CAP_COMMITTING)
		wake_at(c, now_ns);
}

/* Runs on_due() on the next turn of the loop, because the caller may be in the middle of a change. */
void capture_wake(struct capture *c)
{
	if (c->armed && c->state < CAP_COMMITTING)
		loop_timer_in(c->captures->env.loop, &c->timer, 0, on_due, c);
}

/* The lead is how long arming this fleet has taken before. A host that is not armed at T0 has the same time
 * again. */
int64_t capture_arm_by(const struct capture *c, int64_t t0_ns)
{
	int64_t patience_ns = c->captures->env.patience->arm_ns;

	if (c->snapshot)
		t0_ns = captures_now(c->captures);
	return t0_ns + (c->lead_ns > patience_ns ? c->lead_ns : patience_ns);
}

/* ---- on request ---- */

/* Agents get Stop when the shorter window is durable. That is soon enough: they cut the window by time. */
void capture_stop(struct capture *c)
{
	if (c->state == CAP_QUEUED)
		(void)capture_cancel(c);
	else
		capture_stop_at(c, captures_now(c->captures));
}

void capture_stop_at(struct capture *c, int64_t t1_ns)
{
	if (t1_ns < c->t0_ns + MIN_WINDOW_NS)
		t1_ns = c->t0_ns + MIN_WINDOW_NS;
	if (c->state >= CAP_UPLOADING || t1_ns >= c->t0_ns + c->duration_ns)
		return;
	c->duration_ns = t1_ns - c->t0_ns;
	capture_set_deadline(c, t1_ns);
	capture_store_stop(c);
	capture_notify(c);
}

bool capture_cancel(struct capture *c)
{
	if (c->state >= CAP_COMMITTING)
		return false;
	c->cancelled = true;
	c->not_durable.code = 0; /* of an earlier stop */
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (h->old_result)
			continue;
		h->stored = false;
		capture_host_failed(h, REASON_CANCELLED, "on request");
	}
	return true;
}
