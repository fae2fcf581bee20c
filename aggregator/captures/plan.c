/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a built capture to armed hosts: the capture is shared, queued or planned, and then its hosts are
 * armed. Nothing is promised before it is in the store: the ledger's events start what comes next.
 */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "aggregator/captures/arm_message.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/ledger.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "proto/reasons.h"

/* largest lead that next_lead() chooses, unless twice the last lead is more */
#define LEAD_MOST_NS (5 * NS_PER_S)

static bool is_to_be_armed(const struct capture_host *h)
{
	return !capture_host_has_ended(h);
}

static void arm(struct capture *c)
{
	struct buf message = BUF_INIT;

	c->armed_at_ns = captures_now(c->captures);
	c->arm_by_ns = capture_arm_by(c, c->t0_ns);
	message_arm(&message, c, c->t0_ns);
	capture_send(c, &message, is_to_be_armed);
	capture_wake(c);
}

/* Whether hosts would be armed after T0: storing the plan took more than half of the lead. */
static bool is_late(const struct capture *c)
{
	int64_t earliest_ns = captures_now(c->captures) + c->lead_ns / 2;

	if (!c->lead_ns) /* an open-ended or past window: rings reach back */
		return false;
	if (capture_is_retry(c))
		return capture_retry_begins_before(c, earliest_ns);
	return c->state == CAP_PLANNING && c->t0_ns < earliest_ns;
}

/* Each lead is at least twice the last one, so in the end it is longer than the store takes. */
static int64_t next_lead(const struct capture *c)
{
	int64_t took_ns = captures_now(c->captures) - (c->t0_ns - c->lead_ns);
	int64_t lead_ns = 2 * took_ns < LEAD_MOST_NS ? 2 * took_ns : LEAD_MOST_NS;

	return lead_ns > 2 * c->lead_ns ? lead_ns : 2 * c->lead_ns;
}

static void move_window(struct capture *c)
{
	c->lead_ns = next_lead(c);
	if (capture_is_retry(c)) {
		capture_retry_choose_window(c);
	} else {
		c->t0_ns = captures_now(c->captures) + c->lead_ns;
		capture_set_deadline(c, c->t0_ns + c->duration_ns);
	}
	capture_store(c);
}

static void shorten(struct capture *c)
{
	c->duration_ns = c->stop_at_ns - c->t0_ns;
	capture_set_deadline(c, c->stop_at_ns);
	c->stop_at_ns = 0;
}

static void send_stop(struct capture *c)
{
	struct buf message = BUF_INIT;

	message_stop(&message, c->session, c->t0_ns + c->duration_ns,
		     capture_gather_by(c, c->t0_ns + c->duration_ns));
	capture_send(c, &message, capture_any_host);
	capture_wake(c);
	capture_notify(c);
}

/* Agents are told only now, when a successor of this aggregator would know of the stop. If the window was
 * over by then, the hosts have recorded all of it: the stop is taken out of the record again. */
static bool on_stop_durable(struct capture *c)
{
	if (captures_now(c->captures) >= c->t0_ns + c->duration_ns) {
		c->stop_at_ns = 0;
		capture_store(c);
		return false;
	}
	shorten(c);
	send_stop(c);
	return true;
}

static bool is_recorded(const struct capture_host *h)
{
	return !h->old_result;
}

static void send_cancel(struct capture *c)
{
	struct buf message = BUF_INIT;

	message_cancel(&message, c->session);
	capture_send(c, &message, is_recorded);
}

/* ---- the ledger ---- */

/* Whether the latest change is stored. For a failed or cancelled capture the latest change is its end. */
static bool is_durable(const struct capture *c)
{
	return capture_has_ended(c) || (c->ledger && ledger_is_durable(c->ledger));
}

void capture_when_durable(struct capture *c, capture_durable_fn fn, void *arg)
{
	if (is_durable(c)) {
		fn(arg, c, c->state == CAP_LOST ? &c->error : NULL);
		return;
	}
	c->durable_watches = xrealloc(c->durable_watches,
				      (c->n_durable_watches + 1) * sizeof(*c->durable_watches));
	c->durable_watches[c->n_durable_watches++] = (struct durable_watch){ fn, arg };
}

void capture_notify_durable(struct capture *c, const struct err *not_durable)
{
	struct durable_watch *watches = c->durable_watches;
	size_t n = c->n_durable_watches;

	c->durable_watches = NULL;
	c->n_durable_watches = 0;
	for (size_t i = 0; i < n; i++)
		watches[i].fn(watches[i].arg, c, not_durable);
	free(watches);
}

/* The plan is durable: arms the hosts. False if the window had to be moved: then a new plan is being stored. */
static bool begin_window(struct capture *c)
{
	if (c->stop_at_ns)
		shorten(c);
	if (is_late(c)) {
		move_window(c);
		return false;
	}
	(void)capture_on(c, EVENT_PLANNED);
	if (capture_is_retry(c))
		capture_retry_ask(c);
	else
		arm(c);
	capture_wake(c);
	return true;
}

/* A change of a capture under way is durable. False as for begin_window(). */
static bool continue_capture(struct capture *c)
{
	if (c->stop_at_ns)
		return on_stop_durable(c);
	if (!capture_is_retry(c))
		return true;
	if (is_late(c)) {
		move_window(c);
		return false;
	}
	capture_retry_ask(c);
	return true;
}

static void on_durable(void *arg)
{
	struct capture *c = arg;

	c->store_error.code = 0;
	if (capture_is_queued(c))
		capture_queue_schedule(c->captures);
	else if (c->state == CAP_PLANNING && !begin_window(c))
		return;
	else if (c->state > CAP_PLANNING && capture_is_open(c) && !continue_capture(c))
		return;
	if (c->cancelled)
		send_cancel(c);
	/* Only after Arm is sent: writing an answer with all hosts takes time. */
	capture_notify_durable(c, NULL);
}

/* Ends the capture with an error as the answer; the end also removes a plan that the store may have taken. */
static void end_refused(struct capture *c, const struct err *why)
{
	err_set(&c->error, ERR_BUSY, "the store did not take the %s: %s",
		capture_is_retry(c) ? "retry" : "plan", why->msg);
	capture_notify_durable(c, &c->error);
	capture_fail_hosts(c, capture_any_host, REASON_STORE, c->error.msg);
}

/* The ledger repeats the write in any case. Callers get an error. A capture that has no record yet, or that
 * waits for a training step, ends. */
static void on_refused(void *arg, const struct err *why)
{
	struct capture *c = arg;
	bool is_first = !ledger_number(c->ledger);
	struct err e;

	c->store_error = *why;
	if (capture_is_open(c) && (is_first || (c->state == CAP_PLANNING && c->by_step))) {
		end_refused(c, why);
		return;
	}
	err_set(&e, ERR_IO,
		"the store refused to record this; the write is repeated, and the change takes "
		"effect when it succeeds: %s",
		why->msg);
	capture_notify_durable(c, &e);
	capture_notify(c);
}

static void close_ledger(struct capture *c)
{
	ledger_close(c->ledger);
	c->ledger = NULL;
}

/* capture_store_notes() has changed files. Texts of the capture may be reading the old report now. */
static void apply_notes(struct capture *c, const struct capture *copy)
{
	struct reported_file *file;
	struct capture_host *h;

	for (size_t i = 0; i < c->n_hosts; i++)
		c->hosts[i].bytes = c->hosts[i].bytes_done = copy->hosts[i].bytes;
	h = copy->noted ? &c->hosts[copy->noted - 1] : NULL;
	if (!h || h->n_reported != 1)
		return;
	file = pool_alloc(&c->kept, sizeof(*file));
	*file = copy->noted_file;
	h->reported_files = file;
}

static void on_ended(void *arg, const json_t *record, const void *made_of)
{
	struct capture *c = arg;
	const struct capture *copy = made_of;
	const json_t *document = json_object_get(json_object_get(record, "end"), "document");

	json_array_clear(c->warnings); /* the causality check may have added a warning */
	json_array_extend(c->warnings, json_object_get(document, "warnings"));
	capture_apply_stored(c, copy);
	if (copy->noted || copy->n_cleared)
		apply_notes(c, copy);
	close_ledger(c);
	if (c->cancelled)
		send_cancel(c);
	capture_end(c, c->error.code ? EVENT_DISCARDED : EVENT_COMMITTED);
}

static void on_lost(void *arg, const struct err *why)
{
	struct capture *c = arg;

	log_error("AGG-LEDGER", "session=%s state=lost reason=\"%s\"", c->session, why->msg);
	c->error = *why;
	close_ledger(c);
	capture_end(c, EVENT_LOST);
}

static const struct ledger_events ledger_events = {
	.durable = on_durable,
	.refused = on_refused,
	.ended = on_ended,
	.lost = on_lost,
};

static void open_ledger(struct capture *c, unsigned int n, int64_t epoch)
{
	const struct ledger_opts opts = {
		.sessions = c->captures->env.store,
		.session = c->session,
		.run = c->run,
		.n = n,
		.epoch = epoch,
		.events = &ledger_events,
		.arg = c,
	};

	c->ledger = ledger_open(&opts);
}

/* A record is made once: on_ended() reads of its hosts only what the store was found to have changed. While 10,000 hosts'
 * record is written, it is in memory twice, so the copy goes before. */
static int make_record(void *arg, json_t **record, struct err *e)
{
	struct capture *copy = arg;
	int rc = capture_record_json(copy, record, e);

	if (!rc && !copy->n_missing && !copy->noted && !copy->n_cleared) {
		free(copy->hosts);
		copy->hosts = NULL;
	}
	return rc;
}

static void release_copy(void *copy)
{
	capture_copy_free(copy);
}

void capture_store(struct capture *c)
{
	const struct ledger_change change = { make_record, release_copy, capture_copy(c) };

	if (!c->ledger)
		open_ledger(c, 0, 0);
	ledger_change(c->ledger, &change);
}

void capture_take_over(struct capture *c, unsigned int n, int64_t epoch)
{
	open_ledger(c, n, epoch);
	capture_store(c);
}

void capture_hold_end(struct capture *c, bool is_held)
{
	if (c->ledger)
		ledger_hold(c->ledger, is_held);
}

/* ---- the beginning ---- */

static bool is_unreachable(const struct capture_host *h)
{
	return !h->instance && !h->reconnect_by_ns;
}

/* An agent that is being replaced is armed when the next one connects, unless that has nothing of the window. */
static void await_replaced(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts && !c->snapshot; i++) {
		struct capture_host *h = &c->hosts[i];
		int64_t within_ns = h->instance || capture_host_has_ended(h)
					    ? 0
					    : capture_host_replaced_within_ns(h);

		h->is_left = within_ns > 0;
		if (h->is_left)
			capture_host_await_agent(h, within_ns);
	}
}

void capture_fail_unreachable(struct capture *c)
{
	await_replaced(c);
	capture_fail_hosts(c, is_unreachable, REASON_UNREACHABLE, CAPTURE_NOT_CONNECTED);
}

void capture_store_plan(struct capture *c)
{
	log_info("AGG-CAPTURE",
		 "session=%s run=\"%s\" hosts=%zu duration_ms=%" PRId64 " origin=\"%s\" queued=%d",
		 c->session, c->run, c->n_hosts, c->duration_ns / NS_PER_MS, c->origin,
		 capture_is_queued(c));
	if (c->state == CAP_PLANNING)
		capture_fail_unreachable(c);
	if (capture_is_open(c))
		capture_store(c);
}

/* Stores the plan again with current times: recovery would carry on from it. */
void capture_begin_queued(struct capture *c)
{
	capture_queue_leave(c);
	if (!capture_on(c, EVENT_TURN))
		return;
	if (capture_is_retry(c)) {
		capture_retry_begin(c);
		return;
	}
	capture_renew(c);
	log_info("AGG-CAPTURE", "session=%s state=begun", c->session);
	capture_fail_unreachable(c);
	if (capture_is_open(c))
		capture_store(c);
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
	if (shared && !(capture_is_queued(shared) && req->wait_ns < 0)) {
		add_caller(c, shared, req->wait_ns);
		*out = shared;
		return 0;
	}
	if (cs->env.admit)
		rc = cs->env.admit(cs->env.admit_arg, c->run, e);
	capture_queue_await_replaced(c, req->wait_ns);
	if (!rc && (c->by_step || capture_queue_must_wait(c)))
		rc = capture_queue_enter(c, req->wait_ns, e);
	if (rc) {
		capture_free(c);
		return rc;
	}
	capture_insert(c);
	if (cs->env.admit)
		cs->env.admitted(cs->env.admit_arg, c);
	if (c->state == CAP_ASKING)
		capture_queue_schedule(cs); /* checks first whether the step can be reached */
	else
		capture_store_plan(c);
	*out = c;
	return 0;
}
