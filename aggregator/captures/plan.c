/* SPDX-License-Identifier: Apache-2.0 */
/* From a built capture to armed hosts: shared, queued or planned in the store, then armed. Also an early stop. */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>

#include "aggregator/captures/arm_message.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

static void arm(struct capture *c)
{
	struct buf message = BUF_INIT;

	c->armed_at_ns = captures_now(c->captures);
	c->arm_by_ns = capture_arm_by(c, c->t0_ns);
	message_arm(&message, c, c->t0_ns);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct host *host = capture_host_find_own_agent(&c->hosts[i]);

		if (host && !capture_host_has_ended(&c->hosts[i]))
			host_send(host, &message);
	}
	buf_release(&message);
	capture_wake(c);
}

/* Moves T0 once, if storing the plan took more than half of the lead. */
static bool move_t0(struct capture *c)
{
	int64_t earliest_ns = captures_now(c->captures) + c->lead_ns / 2;

	if (c->t0_moved || !c->lead_ns || c->t0_ns >= earliest_ns)
		return false;
	c->t0_moved = true;
	c->t0_ns = earliest_ns + c->lead_ns / 2;
	capture_set_deadline(c, c->t0_ns + c->duration_ns);
	return true;
}

static void run_replan(void *arg)
{
	struct store_job *job = arg;

	job->rc = session_update_plan(job->store, job->session, job->doc, &job->e);
}

static void run_plan(void *arg)
{
	struct store_job *job = arg;

	job->rc = session_create_plan(job->store, job->session, job->doc, &job->e);
}

/* A capture that has failed or is cancelled is durable only when its end is stored. */
static bool is_durable(const struct capture *c)
{
	return capture_has_ended(c) ||
	       (c->plan_done && !capture_is_being_stored(c) && !c->cancelled && !c->error.code);
}

void capture_notify_durable(struct capture *c)
{
	if (!is_durable(c) && !c->not_durable.code)
		return;
	for (size_t i = 0; i < c->n_durable_watches; i++)
		c->durable_watches[i].fn(c->durable_watches[i].arg, c);
	c->n_durable_watches = 0;
}

static void on_plan_stored(void *arg);

/* A capture leaves the queue, and the store has its older plan only: it goes on when the store takes the new one. */
static void replan(void *arg)
{
	struct capture *c = arg;

	if (c->n_ended == c->n_hosts) {
		c->armed = true;
		capture_finish(c);
		return;
	}
	capture_renew(c);
	store_job_begin(c, capture_plan_json(c), run_replan, on_plan_stored);
}

static void retry_replan(struct store_job *job)
{
	struct capture *c = job->capture;

	c->replan_tries++;
	log_error("AGG-STORE", "session=%s action=replan try=%u reason=\"%s\"", c->session,
		  c->replan_tries, job->e.msg);
	if (!c->captures->stopping)
		loop_timer_in(c->captures->env.loop, &c->timer, store_job_pause_ns(c->replan_tries),
			      replan, c);
	store_job_free(job);
}

/* The answer is an error, and what the store may have of the plan is removed. */
static void refuse_plan(struct store_job *job)
{
	struct capture *c = job->capture;

	err_set(&c->not_durable, ERR_BUSY, "the store did not take the plan: %s", job->e.msg);
	c->error = c->not_durable;
	if (c->n_ended == c->n_hosts)
		capture_finish(c);
	else
		capture_fail_all(c, REASON_STORE, c->error.msg);
}

static void on_plan_stored(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;
	bool queued = c->state == CAP_QUEUED;

	if (job->rc && c->plan_done && !c->by_step && c->n_ended < c->n_hosts) {
		retry_replan(job);
		return;
	}
	if (!job->rc && !queued && c->n_ended < c->n_hosts && (move_t0(c) || c->stop_pending)) {
		c->stop_pending = false;
		store_job_begin(c, capture_plan_json(c), run_replan, on_plan_stored);
		store_job_free(job);
		return;
	}
	c->armed = !queued;
	c->plan_done = true;
	store_job_note(job, "plan");
	if (job->rc)
		refuse_plan(job);
	else if (c->n_ended == c->n_hosts)
		capture_finish(c);
	else if (queued)
		capture_queue_schedule(c->captures);
	else
		arm(c);
	capture_notify_durable(c); /* after Arm: writing an answer with all hosts takes time */
	store_job_free(job);
}

/* ---- an early stop ---- */

static void send_stop(const struct capture *c)
{
	struct buf message = BUF_INIT;

	message_stop(&message, c->session, c->t0_ns + c->duration_ns,
		     capture_gather_by(c, c->t0_ns + c->duration_ns));
	capture_send(c, &message);
	buf_release(&message);
}

static void on_stop_stored(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;

	c->storing = false;
	store_job_note(job, "stop");
	store_job_free(job);
	if (c->stop_pending && c->n_ended < c->n_hosts) {
		capture_store_stop(c);
		return;
	}
	capture_notify_durable(c);
	if (!capture_finish_if_ended(c)) {
		send_stop(c);
		capture_wake(c);
	}
}

/* One write at a time: two might reach the store in the wrong order. */
void capture_store_stop(struct capture *c)
{
	c->stop_pending = capture_is_being_stored(c);
	if (c->stop_pending)
		return;
	c->storing = true;
	store_job_begin(c, capture_plan_json(c), run_replan, on_stop_stored);
}

/* ---- the beginning ---- */

static void fail_unreachable(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].instance)
			capture_host_failed(&c->hosts[i], REASON_UNREACHABLE,
					    "the agent is not connected");
	}
}

void capture_store_plan(struct capture *c)
{
	bool queued = c->state == CAP_QUEUED;

	log_info("AGG-CAPTURE",
		 "session=%s run=\"%s\" hosts=%zu duration_ms=%" PRId64 " origin=\"%s\" queued=%d",
		 c->session, c->run, c->n_hosts, c->duration_ns / NS_PER_MS, c->origin, queued);
	if (!queued)
		fail_unreachable(c);
	if (c->state >= CAP_COMMITTING)
		return;
	c->planned = true;
	store_job_begin(c, capture_plan_json(c), run_plan, on_plan_stored);
}

/* Stores the plan again, with current times: recovery carries on from it. */
void capture_begin_queued(struct capture *c)
{
	capture_queue_leave(c);
	if (capture_is_retry(c)) {
		capture_retry_begin(c);
		return;
	}
	c->state = CAP_ARMING;
	capture_renew(c);
	log_info("AGG-CAPTURE", "session=%s state=begun", c->session);
	fail_unreachable(c);
	store_job_begin(c, capture_plan_json(c), run_replan, on_plan_stored);
	capture_notify(c);
}

static void add_caller(struct capture *c, struct capture *shared, int64_t wait_ns)
{
	capture_queue_extend(shared, c, wait_ns);
	shared->callers++;
	shared->captures->stats.shared++;
	log_info("AGG-SHARED", "session=%s callers=%u origin=\"%s\"", shared->session,
		 shared->callers, c->origin);
	capture_free(c);
	capture_notify(shared);
}

int capture_begin(struct captures *cs, const struct capture_request *req, struct capture **out,
		  struct err *e)
{
	struct capture *c, *shared;
	int rc = capture_build(cs, req, &c, e);

	if (rc)
		return rc;
	shared = capture_find_shared(c);
	/* A caller that may not wait gets ERR_BUSY below. */
	if (shared && !(shared->state == CAP_QUEUED && req->wait_ns < 0)) {
		add_caller(c, shared, req->wait_ns);
		*out = shared;
		return 0;
	}
	if (c->by_step || capture_queue_must_wait(c))
		rc = capture_queue_enter(c, req->wait_ns, e);
	if (rc) {
		capture_free(c);
		return rc;
	}
	capture_insert(c);
	if (c->by_step)
		capture_queue_schedule(cs); /* checks first whether the step can be reached */
	else
		capture_store_plan(c);
	*out = c;
	return 0;
}

void capture_when_durable(struct capture *c, void (*fn)(void *arg, struct capture *c), void *arg)
{
	if (is_durable(c) || (c->state == CAP_COMMITTING && c->not_durable.code)) {
		fn(arg, c);
		return;
	}
	c->durable_watches = xrealloc(c->durable_watches,
				      (c->n_durable_watches + 1) * sizeof(*c->durable_watches));
	c->durable_watches[c->n_durable_watches++] = (struct capture_watch){ fn, arg };
}
