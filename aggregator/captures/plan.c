/* SPDX-License-Identifier: Apache-2.0 */
/* From a capture that was built to its hosts being armed: shared or queued, planned in the store, told. */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>

#include "aggregator/captures/arm_message.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

static void arm(struct capture *c)
{
	struct buf message = BUF_INIT;

	c->armed_at_ns = captures_now(c->captures);
	c->arm_by_ns = capture_arm_by(c, c->t0_ns);
	message_arm(&message, c, c->t0_ns);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct host *host = capture_host_live(&c->hosts[i]);

		if (host && !capture_host_is_over(&c->hosts[i]))
			host_send(host, &message);
	}
	buf_release(&message);
	capture_wake(c);
}

/* T0 moves when storing the plan has eaten up the lead: once. */
static bool move_t0(struct capture *c)
{
	int64_t earliest_ns = captures_now(c->captures) + c->lead_ns / 2;

	if (c->moved || !c->lead_ns || c->t0_ns >= earliest_ns)
		return false;
	c->moved = true;
	c->t0_ns = earliest_ns + c->lead_ns / 2;
	c->deadline_ns = c->t0_ns + c->duration_ns + c->grace_ns;
	return true;
}

static void run_replan(void *arg)
{
	struct store_job *job = arg;

	job->rc = session_replan(job->store, job->session, job->doc, &job->e);
}

static void run_plan(void *arg)
{
	struct store_job *job = arg;

	job->rc = session_plan(job->store, job->session, job->doc, &job->e);
}

/* What is cancelled is so for good only when nothing of it is left. */
static bool is_kept(const struct capture *c)
{
	return capture_is_over(c) || (c->begun && !capture_is_being_stored(c) && !c->cancelled);
}

void capture_tell_kept(struct capture *c)
{
	if (!is_kept(c))
		return;
	for (size_t i = 0; i < c->n_callbacks; i++)
		c->callbacks[i].fn(c->callbacks[i].arg, c);
	c->n_callbacks = 0;
}

static void done_plan(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;
	bool queued = c->state == CAP_QUEUED;

	if (!job->rc && !queued && c->n_over < c->n_hosts && (move_t0(c) || c->cut)) {
		c->cut = false;
		store_job_begin(c, capture_plan(c), run_replan, done_plan);
		store_job_free(job);
		return;
	}
	c->armed = !queued;
	c->begun = true;
	store_job_note(job, "plan");
	if (job->rc)
		c->error = job->e;
	if (c->n_over == c->n_hosts)
		capture_finish(c);
	else if (job->rc)
		capture_fail_all(c, "cancelled", "the plan could not be stored");
	else if (queued)
		capture_queue_kick(c->captures);
	else
		arm(c);
	capture_tell_kept(c); /* hosts first: the answer names them all, which takes its time */
	store_job_free(job);
}

/* ---- an early stop ---- */

static void tell_stop(const struct capture *c)
{
	struct buf message = BUF_INIT;

	message_stop(&message, c->session, c->t0_ns + c->duration_ns);
	capture_tell(c, &message);
	buf_release(&message);
}

static void done_stop(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;

	c->storing = false;
	store_job_note(job, "stop");
	store_job_free(job);
	if (c->cut && c->n_over < c->n_hosts) {
		capture_plan_stop(c);
		return;
	}
	capture_tell_kept(c);
	if (!capture_settle(c)) {
		tell_stop(c);
		capture_wake(c);
	}
}

/* One at a time: they might change places on the way to the store. */
void capture_plan_stop(struct capture *c)
{
	c->cut = capture_is_being_stored(c);
	if (c->cut)
		return;
	c->storing = true;
	store_job_begin(c, capture_plan(c), run_replan, done_stop);
}

/* ---- the beginning ---- */

static void fail_unreachable(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].instance)
			capture_host_failed(&c->hosts[i], "unreachable",
					    "the agent is not connected");
	}
}

void capture_plan_it(struct capture *c)
{
	bool queued = c->state == CAP_QUEUED;

	log_info("AGG-CAPTURE",
		 "session=%s run=\"%s\" hosts=%zu duration_ms=%" PRId64 " origin=\"%s\" queued=%d",
		 c->session, c->run, c->n_hosts, c->duration_ns / NS_PER_MS, c->origin, queued);
	if (!queued)
		fail_unreachable(c);
	if (capture_is_over(c))
		return;
	c->planned = true;
	store_job_begin(c, capture_plan(c), run_plan, done_plan);
}

/* The same plan once more, with times of today: after a crash that is what is carried on. */
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
	store_job_begin(c, capture_plan(c), run_replan, done_plan);
	capture_changed(c);
}

static void share(struct capture *c, struct capture *twin, int64_t wait_ns)
{
	capture_queue_share(twin, c, wait_ns);
	twin->callers++;
	twin->captures->stats.shared++;
	log_info("AGG-SHARED", "session=%s callers=%u origin=\"%s\"", twin->session, twin->callers,
		 c->origin);
	capture_free(c);
	capture_changed(twin);
}

int capture_begin(struct captures *cs, const struct capture_request *req, struct capture **out,
		  struct err *e)
{
	struct capture *c, *twin;
	int rc = capture_build(cs, req, &c, e);

	if (rc)
		return rc;
	twin = capture_queue_twin(c);
	/* Who may not wait is told that it would have to. */
	if (twin && !(twin->state == CAP_QUEUED && req->wait_ns < 0)) {
		share(c, twin, req->wait_ns);
		*out = twin;
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
		capture_queue_kick(cs); /* whether there is such a step is found out first */
	else
		capture_plan_it(c);
	*out = c;
	return 0;
}

void capture_when_kept(struct capture *c, void (*fn)(void *arg, struct capture *c), void *arg)
{
	if (is_kept(c)) {
		fn(arg, c);
		return;
	}
	c->callbacks = xrealloc(c->callbacks, (c->n_callbacks + 1) * sizeof(*c->callbacks));
	c->callbacks[c->n_callbacks++] = (struct capture_watch){ fn, arg };
}
