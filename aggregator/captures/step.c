/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows that begin with a training step. While such a capture waits, hosts report the step they are at.
 * When the step is as far away as arming takes, the hosts are armed for the instant at which it is expected.
 * When all hosts have ended the last step, the window is ended there.
 *
 * If no host marks steps, but the processes of a tracer count them, the window begins at once: these
 * processes wait for the step themselves, and their hosts report the steps when they have been recorded.
 */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "aggregator/fleet/messages.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

#define ASK_PATIENCE_NS NS_PER_S /* how long to wait for the first report of every host */
#define LISTEN_NS	(20 * NS_PER_S)
#define GAP_NS		(50 * NS_PER_MS)
#define GAP_PER_HOST_NS (200 * NS_PER_US) /* a large fleet sends fewer reports per host */
#define SLACK_NS	(100 * NS_PER_MS) /* time to store the plan */
/* a job without a step for this long, or for STALE periods if that is longer, has stopped */
#define STALE_NS (5 * NS_PER_S)
#define STALE	 10
/* processes that count their steps must reach them within this */
#define COUNTED_NS  (60 * NS_PER_S)
#define COUNTED_MAX INT32_MAX

/* ---- watching steps ---- */

static void watch_steps(struct capture *c, int64_t for_ns)
{
	struct buf message = BUF_INIT;
	size_t at = 0;

	message_step_watch(&message, for_ns, GAP_NS + (int64_t)c->n_hosts * GAP_PER_HOST_NS);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct host *host = capture_host_next_agent(&c->hosts[i], &at);

		if (host)
			host_send(host, &message);
	}
	buf_release(&message);
	c->steps_watched_until_mono_ns = now_mono_ns() + for_ns;
}

static void renew_step_watch(struct capture *c)
{
	if (!c->steps_asked_mono_ns)
		c->steps_asked_mono_ns = now_mono_ns();
	if (c->steps_watched_until_mono_ns - LISTEN_NS / 2 < now_mono_ns())
		watch_steps(c, LISTEN_NS);
}

static bool all_answered(const struct capture *c)
{
	size_t at = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		struct host *host = capture_host_next_agent(&c->hosts[i], &at);

		if (host && host->steps.received_mono_ns < c->steps_asked_mono_ns)
			return false;
	}
	return true;
}

/* ---- reports ---- */

static bool is_running(const struct host_steps *s, int64_t now_ns)
{
	int64_t silent_ns = now_ns - s->at_ns;

	return s->known && !s->counted && s->period_ns > 0 &&
	       (silent_ns < STALE_NS || silent_ns / STALE < s->period_ns);
}

/* Fills `reports`, which has space for all hosts; returns how many hosts have a running step. */
static size_t collect_reports(const struct capture *c, struct step_report *reports)
{
	int64_t now_ns = captures_now(c->captures);
	size_t n = 0, at = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		struct host *host = capture_host_next_agent(&c->hosts[i], &at);
		const struct host_steps *s = host ? &host->steps : NULL;

		if (s && is_running(s, now_ns))
			reports[n++] = (struct step_report){
				.host = host->name,
				.step = s->step,
				.at_ns = s->at_ns,
				.period_ns = s->period_ns,
				.jitter_ns = s->jitter_ns < s->period_ns ? s->jitter_ns
									 : s->period_ns,
			};
	}
	return n;
}

/* ---- waiting ---- */

/* Processes that count steps are told only at T0. */
static int64_t lead_of(const struct capture *c)
{
	int64_t lead_ns = capture_lead(c->captures, c->n_hosts, 0);
	int64_t slowest_ns = *c->step_tracer ? 0 : capture_tracers_lead(c);

	return slowest_ns > lead_ns ? slowest_ns : lead_ns;
}

/* How many hosts have a tracer whose processes count; sets its name. */
static size_t find_counting(struct capture *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		const struct host *h = capture_host_find_agent(&c->hosts[i]);

		for (size_t k = 0; h && k < h->n_tracers; k++) {
			const struct host_tracer *t = &h->tracers[k];

			if (!t->counts_steps || !capture_has_tracer(c, t->name) ||
			    (n && strcmp(t->name, c->step_tracer) != 0))
				continue;
			snprintf(c->step_tracer, sizeof(c->step_tracer), "%s", t->name);
			n++;
		}
	}
	return n;
}

static int expect_counted(struct capture *c, size_t n_hosts, struct err *e)
{
	int64_t step = c->at_step == STEP_NEXT ? 0 : c->at_step;
	int64_t t0_ns = captures_now(c->captures) + lead_of(c) + SLACK_NS;

	if (!c->n_steps)
		return err_set(e, ERR_INVALID,
			       "no host marks its steps, and processes that count their own steps "
			       "cannot record for a duration: give a number of steps");
	if (c->at_step == 0 || c->at_step > COUNTED_MAX)
		return err_set(e, ERR_INVALID,
			       "step %" PRId64
			       ": processes that count their steps take 1 to %d, or "
			       "next",
			       c->at_step, COUNTED_MAX);
	c->step_hosts = n_hosts;
	c->step_plan = (struct step_plan){ .step = step,
					   .begins_ns = t0_ns,
					   .ends_ns = t0_ns + COUNTED_NS,
					   .t0_ns = t0_ns,
					   .t1_ns = t0_ns + COUNTED_NS };
	c->t0_ns = t0_ns;
	c->duration_ns = COUNTED_NS;
	return 0;
}

static int expect_step(struct capture *c, struct err *e)
{
	int64_t now_ns = captures_now(c->captures);
	int64_t ready_ns = c->at_step == STEP_NEXT ? lead_of(c) + SLACK_NS : lead_of(c) / 2;
	struct step_report *reports = xcalloc(c->n_hosts, sizeof(*reports));
	size_t n = collect_reports(c, reports);
	size_t n_counting = n ? 0 : find_counting(c);
	int rc;

	if (n_counting) {
		free(reports);
		return expect_counted(c, n_counting, e);
	}
	c->step_tracer[0] = 0;
	rc = step_plan_make(&c->step_plan, reports, n, c->at_step, c->n_steps, now_ns,
			    now_ns + ready_ns, e);

	free(reports);
	if (rc)
		return rc;
	c->step_hosts = n;
	c->t0_ns = c->step_plan.t0_ns;
	if (c->n_steps)
		c->duration_ns = c->step_plan.t1_ns - c->t0_ns;
	return 0;
}

static int check_expected(const struct capture *c, struct err *e)
{
	int64_t now_ns = captures_now(c->captures);

	if (c->t0_ns > c->queued_until_ns && !*c->step_tracer)
		return err_set(e, ERR_INVALID,
			       "step %" PRId64 " is expected in %" PRId64
			       " s: too far away, the capture may wait %" PRId64 " s",
			       c->step_plan.step, (c->t0_ns - now_ns) / NS_PER_S,
			       (c->queued_until_ns - now_ns) / NS_PER_S);
	if (c->duration_ns > LIMIT_DURATION_NS)
		return err_set(e, ERR_INVALID,
			       "%" PRId64 " steps may take %" PRId64 " s: use fewer", c->n_steps,
			       c->duration_ns / NS_PER_S);
	return 0;
}

/* A capture of a numbered step cannot wait for conflicting captures. One of the next step can: it takes a
 * later one. */
static int admit_due(struct capture *c, struct err *e)
{
	if (!capture_queue_must_wait(c))
		return STEP_DUE;
	if (c->at_step == STEP_NEXT || *c->step_tracer)
		return STEP_WAITING;
	return err_set(e, ERR_BUSY,
		       "step %" PRId64 " begins soon, but the capture has to wait for %s",
		       c->step_plan.step, c->waits_for);
}

int capture_step_check(struct capture *c, struct err *e)
{
	int64_t now_ns = captures_now(c->captures);
	int rc;

	if (capture_queue_waits_for_hosts(c))
		return STEP_WAITING;
	renew_step_watch(c);
	if (!c->step_hosts && !all_answered(c) &&
	    now_mono_ns() < c->steps_asked_mono_ns + ASK_PATIENCE_NS) {
		snprintf(c->waits_for, sizeof(c->waits_for),
			 "the hosts to report their training steps");
		return STEP_ASKING;
	}
	rc = expect_step(c, e);
	if (!rc)
		rc = check_expected(c, e);
	if (rc)
		return rc;
	if (*c->step_tracer)
		return admit_due(c, e);
	snprintf(c->waits_for, sizeof(c->waits_for), "step %" PRId64 ", expected in %" PRId64 " s",
		 c->step_plan.step, (c->step_plan.begins_ns - now_ns) / NS_PER_S);
	if (c->at_step == STEP_NEXT || now_ns >= c->t0_ns - lead_of(c) - SLACK_NS)
		return admit_due(c, e);
	return STEP_WAITING;
}

int64_t capture_step_wake_ns(const struct capture *c)
{
	int64_t now_ns = captures_now(c->captures);
	int64_t again_ns = now_ns + (c->step_hosts ? NS_PER_S : ASK_PATIENCE_NS / 4);
	int64_t due_ns = c->step_hosts ? c->t0_ns - lead_of(c) - SLACK_NS : INT64_MAX;

	return due_ns > now_ns && due_ns < again_ns ? due_ns : again_ns;
}

/* ---- the window ---- */

void capture_step_begin(struct capture *c)
{
	int64_t now_ns = captures_now(c->captures);

	log_info("AGG-STEP",
		 "session=%s step=%" PRId64 " steps=%" PRId64 " hosts=%zu in_ms=%" PRId64,
		 c->session, c->step_plan.step, c->n_steps, c->step_hosts,
		 (c->step_plan.begins_ns - now_ns) / NS_PER_MS);
	c->not_before_ns = c->t0_ns;
	watch_steps(c, c->step_plan.t1_ns - now_ns + LISTEN_NS);
	capture_begin_queued(c);
}

/* All hosts are past the last step. The window includes the mark that shows it. */
static void end_at_mark(struct capture *c)
{
	struct step_report *reports = xcalloc(c->n_hosts, sizeof(*reports));
	size_t n = collect_reports(c, reports);
	int64_t end = c->step_plan.step + c->n_steps, at_ns;

	c->step_ended = step_plan_reached(reports, n, end, &at_ns);
	if (c->step_ended)
		capture_stop_at(c, at_ns + NS_PER_MS + reports[0].period_ns / 8);
	free(reports);
}

/* All hosts have reported the steps that their processes recorded in this window. */
static void end_at_count(struct capture *c)
{
	int64_t end_ns = 0, period_ns = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		struct host *host = capture_host_find_agent(&c->hosts[i]);
		const struct host_steps *s = host ? &host->steps : NULL;

		if (!s || !s->known || !s->counted || s->at_ns < c->t0_ns)
			continue;
		n++;
		end_ns = s->at_ns > end_ns ? s->at_ns : end_ns;
		period_ns = s->period_ns;
	}
	c->step_ended = n >= c->step_hosts;
	if (c->step_ended)
		capture_stop_at(c, end_ns + NS_PER_MS + period_ns / 8);
}

void captures_host_steps_changed(struct captures *cs, const struct host *host)
{
	struct capture *c;

	TAILQ_FOREACH (c, &cs->all, entry) {
		if (!c->by_step)
			continue;
		if (capture_is_queued(c))
			capture_queue_schedule(cs);
		else if (*c->step_tracer && !c->step_ended && c->state == CAP_RUNNING)
			end_at_count(c);
		else if (c->n_steps && !c->step_ended && c->state == CAP_RUNNING &&
			 host->steps.step >= c->step_plan.step + c->n_steps)
			end_at_mark(c);
	}
}

/* ---- marked steps ---- */

static bool is_covered(const struct capture *c, const struct steps_seen *s)
{
	int64_t last = c->step_plan.step + (c->n_steps ? c->n_steps : 1) - 1;

	return s->first <= c->step_plan.step && s->last >= last;
}

static void warn_of_steps(struct capture *c, const struct capture_host *h)
{
	int64_t last = c->step_plan.step + (c->n_steps ? c->n_steps : 1) - 1;

	if (h->steps && !is_covered(c, h->steps))
		json_array_append_new(c->warnings,
				      json_sprintf("%s: steps %" PRId64 " to %" PRId64
						   " are whole in the window, not %" PRId64
						   " to %" PRId64,
						   h->name, h->steps->first, h->steps->last,
						   c->step_plan.step, last));
}

void capture_step_finish(struct capture *c)
{
	size_t silent = 0;

	if (!c->by_step || c->state < CAP_ARMING || capture_is_retry(c))
		return;
	for (size_t i = 0; i < c->n_hosts; i++) {
		warn_of_steps(c, &c->hosts[i]);
		silent += c->hosts[i].stored && !c->hosts[i].steps;
	}
	if (silent)
		json_array_append_new(c->warnings,
				      json_sprintf("%zu hosts marked no step in the window",
						   silent));
}

json_t *steps_seen_json(const struct steps_seen *s)
{
	json_t *o = json_object();

	json_put_int(o, "first", s->first);
	json_put_int(o, "last", s->last);
	json_put_int(o, "first_at_ns", s->first_at_ns);
	json_put_int(o, "end_at_ns", s->end_at_ns);
	return o;
}

/* The largest error of the prediction, among hosts whose first step in the window is the predicted one. */
static void put_prediction_error(json_t *o, const struct capture *c)
{
	int64_t worst_ns = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		const struct steps_seen *s = c->hosts[i].steps;
		int64_t off_ns;

		if (!s || s->first != c->step_plan.step || *c->step_tracer)
			continue;
		off_ns = c->t0_ns + s->first_at_ns - c->step_plan.begins_ns;
		n++;
		if (llabs(off_ns) > llabs(worst_ns))
			worst_ns = off_ns;
	}
	if (n)
		json_put_int(o, "error_ns", worst_ns);
}

json_t *capture_step_json(const struct capture *c)
{
	json_t *o = json_object();

	if (c->at_step == STEP_NEXT)
		json_put_text(o, "asked", "next");
	else
		json_put_int(o, "asked", c->at_step);
	json_put_int(o, "steps", c->n_steps);
	if (!c->step_hosts)
		return o;
	json_put_int(o, "step", c->step_plan.step);
	json_put_int(o, "hosts", (json_int_t)c->step_hosts);
	if (*c->step_tracer)
		json_put_text(o, "counted_by", c->step_tracer);
	json_put_int(o, "expected_ns", c->step_plan.begins_ns);
	json_put_int(o, "guard_ns", c->step_plan.begins_ns - c->step_plan.t0_ns);
	put_prediction_error(o, c);
	return o;
}

void capture_step_load(struct capture *c, const json_t *doc)
{
	const json_t *o = json_object_get(doc, "at_step");
	const json_t *asked = json_object_get(o, "asked");

	c->by_step = o != NULL;
	c->at_step = json_is_integer(asked) ? json_integer_value(asked) : STEP_NEXT;
	c->n_steps = json_get_int(o, "steps");
	c->step_plan.step = json_get_int(o, "step");
	c->step_plan.begins_ns = json_get_int(o, "expected_ns");
	c->step_plan.t0_ns = c->step_plan.begins_ns - json_get_int(o, "guard_ns");
	c->step_hosts = (size_t)json_get_int(o, "hosts");
	snprintf(c->step_tracer, sizeof(c->step_tracer), "%s", json_get_text(o, "counted_by"));
}
