/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several callers at a time. Identical requests share one capture. A framework's profiler records one capture
 * at a time, so a capture waits while it conflicts with another one, or while LIMIT_CAPTURES are under way.
 * The queue is first come first served: a capture may pass those it does not conflict with.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdio.h>
#include <string.h>

#include "json/json_text.h"
#include "aggregator/captures/options.h"
#include "aggregator/sessions/ledger.h"
#include "base/log.h"
#include "base/now.h"
#include "proto/limits.h"
#include "proto/reasons.h"

#define PROFILER "profiler" /* the tracer that serves one capture at a time */
/* delay of a check, since many hosts become free at the same time */
#define CHECK_DELAY_NS (10 * NS_PER_MS)
#define WAIT_NS	       (600 * NS_PER_S) /* the default of wait_ns */
#define REPLACED_NS    (60 * NS_PER_S) /* the longest wait for agents that are being replaced */
#define BETWEEN_NS     (500 * NS_PER_MS) /* a profiler needs this long between two captures */

/* ---- shared captures ---- */

static bool same_hosts(const struct capture *a, const struct capture *b)
{
	if (a->n_hosts != b->n_hosts)
		return false;
	for (size_t i = 0; i < a->n_hosts; i++) {
		if (strcmp(a->hosts[i].name, b->hosts[i].name))
			return false;
	}
	return true;
}

static bool same_tracers(const struct capture *a, const struct capture *b)
{
	size_t i = 0;

	if (!a->tracers || !b->tracers)
		return a->tracers == b->tracers;
	while (a->tracers[i] && b->tracers[i] && !strcmp(a->tracers[i], b->tracers[i]))
		i++;
	return !a->tracers[i] && !b->tracers[i];
}

static bool same_options(const struct capture *a, const struct capture *b)
{
	return json_equal(a->settings, b->settings) && a->options_len == b->options_len &&
	       !memcmp(a->options, b->options, a->options_len);
}

/* Whether `shared` also answers c's caller: its window has not begun, and its grace is enough. A queued
 * capture can still get a longer grace. */
static bool can_share(const struct capture *shared, const struct capture *c)
{
	int64_t now_ns = captures_now(c->captures);

	if (shared->cancelled || capture_is_retry(shared) || shared->snapshot != c->snapshot)
		return false;
	if (c->snapshot)
		return shared->state < CAP_COMMITTING && capture_is_same_snapshot(shared, c) &&
		       shared->refine == c->refine;
	if (shared->state > CAP_ARMING)
		return false;
	if (!capture_is_queued(shared) && shared->t0_ns <= now_ns)
		return false;
	return shared->not_before_ns == c->not_before_ns &&
	       (capture_is_queued(shared) || shared->grace_ns >= c->grace_ns) &&
	       shared->refine == c->refine && shared->by_step == c->by_step &&
	       shared->at_step == c->at_step && shared->n_steps == c->n_steps;
}

/* A window of n_steps has no duration of its own to compare. */
static bool same_length(const struct capture *a, const struct capture *b)
{
	return a->n_steps || a->duration_ns == b->duration_ns;
}

struct capture *capture_find_shared(const struct capture *c)
{
	struct capture *shared;

	if (c->open_ended)
		return NULL;
	TAILQ_FOREACH (shared, &c->captures->all, entry) {
		if (can_share(shared, c) && !shared->open_ended && same_length(shared, c) &&
		    !strcmp(shared->run, c->run) && same_hosts(shared, c) &&
		    spaces_equal(&shared->spaces, &c->spaces) && same_tracers(shared, c) &&
		    same_options(shared, c))
			return shared;
	}
	return NULL;
}

static int64_t queue_deadline(const struct capture *c, int64_t wait_ns)
{
	return captures_now(c->captures) + (wait_ns > 0 ? wait_ns : WAIT_NS);
}

void capture_queue_extend(struct capture *shared, const struct capture *c, int64_t wait_ns)
{
	int64_t until_ns = queue_deadline(c, wait_ns);

	if (!capture_is_queued(shared))
		return;
	if (until_ns > shared->queued_until_ns)
		shared->queued_until_ns = until_ns;
	if (!c->commit_by_ns || (shared->commit_by_ns && shared->commit_by_ns < c->commit_by_ns))
		shared->commit_by_ns = c->commit_by_ns;
}

/* A retry does not wait for its step, which has passed. */
static bool waits_for_step(const struct capture *c)
{
	return c->by_step && !capture_is_retry(c);
}

/* ---- conflicts ---- */

/* Whether the capture needs profilers of frameworks. A snapshot does not, since they have no ring. */
static bool traces_profilers(const struct capture *c)
{
	if (c->snapshot)
		return false;
	for (size_t i = 0; c->tracers && c->tracers[i]; i++) {
		if (!strcmp(c->tracers[i], PROFILER))
			return true;
	}
	return !c->tracers;
}

static bool has_profilers(const struct capture_host *h)
{
	const struct host *host = registry_find(h->capture->captures->env.registry, h->name);

	for (size_t i = 0; host && i < host->n_tracers; i++) {
		if (!strcmp(host->tracers[i].name, PROFILER))
			return strcmp(host->tracers[i].state, "off") != 0;
	}
	return false;
}

/* True until the host's data has been gathered, also after the window. */
static bool is_using_profilers(const struct capture_host *h)
{
	return !capture_host_has_ended(h) && h->state < HOST_UPLOADING;
}

/* The first host whose profilers both captures need, or NULL. Hosts are sorted by name. */
static const char *conflicting_host(const struct capture *a, const struct capture *b)
{
	size_t i = 0, j = 0;

	if (!traces_profilers(a) || !traces_profilers(b))
		return NULL;
	while (i < a->n_hosts && j < b->n_hosts) {
		int order = strcmp(a->hosts[i].name, b->hosts[j].name);

		if (!order && is_using_profilers(&a->hosts[i]) &&
		    is_using_profilers(&b->hosts[j]) && has_profilers(&a->hosts[i]))
			return a->hosts[i].name;
		i += order <= 0;
		j += order >= 0;
	}
	return NULL;
}

/* When c, which is in the queue, may begin at the earliest. */
static int64_t earliest_t0(const struct capture *c)
{
	int64_t t0_ns = captures_now(c->captures) + c->lead_ns;

	if (c->not_before_ns > t0_ns)
		t0_ns = c->not_before_ns;
	return c->by_step && c->step_hosts && c->t0_ns > t0_ns ? c->t0_ns : t0_ns;
}

/* Whether c would end before a begins. That can be known only if the T0 of a is set. A capture that waits for
 * a step that no host has reported yet counts as far in the future. */
static bool ends_before(const struct capture *c, const struct capture *a)
{
	if (capture_is_retry(a) || (capture_is_queued(a) && !a->by_step))
		return false;
	if (capture_is_queued(a) && !a->step_hosts)
		return true;
	return a->state <= CAP_ARMING && earliest_t0(c) + c->duration_ns + BETWEEN_NS < a->t0_ns;
}

static bool conflicts_with(const struct capture *a, struct capture *c)
{
	const char *host = ends_before(c, a) ? NULL : conflicting_host(a, c);

	if (host)
		snprintf(c->waits_for, sizeof(c->waits_for),
			 "capture %.40s, which has the framework profilers of %.50s", a->session,
			 host);
	return host != NULL;
}

/* After a restart of the aggregator, agents connect one by one. */
bool capture_queue_waits_for_hosts(struct capture *c)
{
	if (captures_now(c->captures) >= c->hold_until_ns)
		return false;
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (capture_host_has_ended(&c->hosts[i]) || capture_host_find_agent(&c->hosts[i]))
			continue;
		snprintf(c->waits_for, sizeof(c->waits_for),
			 "%.50s to connect after the aggregator's restart", c->hosts[i].name);
		return true;
	}
	return false;
}

/* The window of a snapshot is over, an open-ended one begins now, and a caller with a deadline has no time to lose. */
void capture_queue_await_replaced(struct capture *c, int64_t wait_ns)
{
	if (wait_ns >= 0 && !c->snapshot && !c->open_ended && !c->by_step && !c->commit_by_ns)
		c->replaced_until_ns = captures_now(c->captures) + REPLACED_NS;
}

/* So that a rolling update costs captures some seconds, and none of them a host. */
static bool waits_for_replaced(struct capture *c)
{
	int64_t now_ns = captures_now(c->captures);
	size_t at = 0;

	if (now_ns >= c->replaced_until_ns || !registry_expects_agents(c->captures->env.registry))
		return false;
	for (size_t i = 0; i < c->n_hosts; i++) {
		const struct host *host = registry_find_next(c->captures->env.registry, &at,
							     c->hosts[i].name);
		int64_t left_ns = host && !capture_host_has_ended(&c->hosts[i])
					  ? host_replaced_within_ns(host)
					  : 0;

		if (!left_ns)
			continue;
		c->check_at_ns = now_ns + left_ns;
		if (c->replaced_until_ns < c->check_at_ns)
			c->check_at_ns = c->replaced_until_ns;
		snprintf(c->waits_for, sizeof(c->waits_for),
			 "the agent of %.50s, which is being replaced", c->hosts[i].name);
		return true;
	}
	return false;
}

bool capture_queue_must_wait(struct capture *c)
{
	struct captures *cs = c->captures;
	struct capture *a;

	if (c->open_ended)
		return false;
	TAILQ_FOREACH (a, &cs->all, entry) {
		if (!capture_is_queued(a) && !capture_has_ended(a) && conflicts_with(a, c))
			return true;
	}
	for (a = TAILQ_FIRST(&cs->queue); a && a != c; a = TAILQ_NEXT(a, queued)) {
		if (conflicts_with(a, c))
			return true;
	}
	if (cs->n_active - cs->n_queued >= LIMIT_CAPTURES) {
		snprintf(c->waits_for, sizeof(c->waits_for),
			 "one of the %d captures under way to end", LIMIT_CAPTURES);
		return true;
	}
	return waits_for_replaced(c) || capture_queue_waits_for_hosts(c);
}

/* ---- the queue ---- */

static void number_queue(struct captures *cs)
{
	struct capture *c;
	size_t n = 0;

	TAILQ_FOREACH (c, &cs->queue, queued)
		c->position = ++n;
	cs->n_queued = n;
}

/* Forgets the agents of a queued capture: they may be others when it begins. */
static void reset_hosts(struct capture *c)
{
	c->n_ended = 0;
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		c->n_ended += h->old_result != NULL;
		if (h->old_result)
			continue;
		h->state = HOST_ARMING;
		h->instance = 0;
		h->reconnect_by_ns = 0;
		h->is_left = false;
		h->reason = h->detail = "";
	}
}

int capture_queue_enter(struct capture *c, int64_t wait_ns, struct err *e)
{
	struct captures *cs = c->captures;

	if (wait_ns < 0 && !waits_for_step(c))
		return err_set(
			e, ERR_BUSY,
			"the capture would have to wait for %s: repeat it later, or set wait_ns",
			c->waits_for);
	if (cs->n_queued >= LIMIT_QUEUED)
		return err_set(e, ERR_LIMIT,
			       "%zu captures wait, which is the limit; this one would "
			       "wait for %.100s",
			       cs->n_queued, c->waits_for);
	c->state = waits_for_step(c) ? CAP_ASKING : CAP_QUEUED;
	c->queued_until_ns = queue_deadline(c, wait_ns);
	reset_hosts(c);
	TAILQ_INSERT_TAIL(&cs->queue, c, queued);
	number_queue(cs);
	return 0;
}

/* Sorted by session: names begin with the time of the request, to a second. */
void capture_queue_recover(struct capture *c, const json_t *plan)
{
	struct captures *cs = c->captures;
	struct capture *a = TAILQ_FIRST(&cs->queue);

	c->state = CAP_QUEUED;
	c->next_reconnect_by_ns = INT64_MAX;
	c->step_hosts = 0; /* reports from before the restart are outdated */
	c->queued_until_ns = json_get_int(plan, "queued_until_ns");
	c->not_before_ns = json_get_int(plan, "not_before_ns");
	c->commit_by_ns = json_get_int(plan, "commit_by_ns");
	c->hold_until_ns = captures_now(cs) + BACK_PATIENCE_NS;
	reset_hosts(c);
	while (a && strcmp(a->session, c->session) < 0)
		a = TAILQ_NEXT(a, queued);
	if (a)
		TAILQ_INSERT_BEFORE(a, c, queued);
	else
		TAILQ_INSERT_TAIL(&cs->queue, c, queued);
	number_queue(cs);
	capture_queue_schedule(cs);
}

void capture_queue_leave(struct capture *c)
{
	struct captures *cs = c->captures;
	struct capture *a;

	if (!capture_is_queued(c))
		return;
	TAILQ_REMOVE(&cs->queue, c, queued);
	number_queue(cs);
	TAILQ_FOREACH (a, &cs->queue, queued)
		capture_notify(a); /* its position changed */
	capture_queue_schedule(cs);
}

static void fail_expired(struct capture *c)
{
	err_set(&c->error, ERR_TIMEOUT, "waited without success for %s", c->waits_for);
	capture_fail_hosts(c, capture_any_host, REASON_QUEUED, c->error.msg);
}

static void check_step(struct capture *c)
{
	struct err e;
	int rc = capture_step_check(c, &e);

	if (rc < 0) {
		c->error = e;
		capture_fail_hosts(c, capture_any_host, REASON_STEP, e.msg);
	} else if (rc != STEP_ASKING && capture_on(c, EVENT_STEP_EXPECTED)) {
		capture_store_plan(c);
	} else if (rc == STEP_DUE) {
		capture_step_begin(c);
	}
}

static bool must_still_wait(struct capture *c)
{
	if (capture_is_retry(c))
		capture_retry_update_states(c);
	return capture_queue_must_wait(c);
}

/* Begins the capture if it need not wait any more; ends it if it has waited too long. */
static void check_queued(struct capture *c)
{
	char before[sizeof(c->waits_for)];

	memcpy(before, c->waits_for, sizeof(before));
	if (captures_now(c->captures) >= c->queued_until_ns)
		fail_expired(c);
	else if (waits_for_step(c))
		check_step(c);
	else if (!must_still_wait(c))
		capture_begin_queued(c);
	if (capture_is_queued(c) && strcmp(before, c->waits_for))
		capture_notify(c);
}

static void check_queue(void *arg);

static void schedule_check(struct captures *cs)
{
	int64_t now_ns = captures_now(cs), next_ns = INT64_MAX;
	const struct capture *c;

	TAILQ_FOREACH (c, &cs->queue, queued) {
		if (c->queued_until_ns < next_ns)
			next_ns = c->queued_until_ns;
		if (c->hold_until_ns > now_ns && c->hold_until_ns < next_ns)
			next_ns = c->hold_until_ns;
		if (c->check_at_ns > now_ns && c->check_at_ns < next_ns)
			next_ns = c->check_at_ns;
		if (waits_for_step(c) && capture_step_wake_ns(c) < next_ns)
			next_ns = capture_step_wake_ns(c);
	}
	if (next_ns != INT64_MAX && !cs->check_soon)
		loop_timer_in(cs->env.loop, &cs->queue_timer,
			      next_ns > now_ns + CHECK_DELAY_NS ? next_ns - now_ns : CHECK_DELAY_NS,
			      check_queue, cs);
}

static void check_queue(void *arg)
{
	struct captures *cs = arg;
	struct capture *c, *next;

	cs->check_soon = false;
	for (c = TAILQ_FIRST(&cs->queue); c && !cs->stopping; c = next) {
		next = TAILQ_NEXT(c, queued);
		if (c->state == CAP_ASKING || ledger_number(c->ledger)) /* its plan is stored */
			check_queued(c);
	}
	schedule_check(cs);
}

void capture_queue_schedule(struct captures *cs)
{
	if (!cs->n_queued || cs->check_soon)
		return;
	cs->check_soon = true;
	loop_timer_in(cs->env.loop, &cs->queue_timer, CHECK_DELAY_NS, check_queue, cs);
}
