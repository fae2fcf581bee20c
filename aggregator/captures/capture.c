/* SPDX-License-Identifier: Apache-2.0 */
/* The list of captures; window, deadline and end of a capture as a whole. */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/ledger.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define MIN_WINDOW_NS NS_PER_MS
/* hosts that fail in one turn of the loop: each makes a log line and perhaps a message */
#define TURN_FAILURES 500
#define ENDED_KEPT    64
/* hosts of all ended captures that are kept in memory: half a kilobyte each */
#define ENDED_HOSTS_KEPT 10000

static void on_due(void *arg);

/* ---- all of them ---- */

struct captures *captures_new(const struct captures_env *env)
{
	struct captures *cs = xcalloc(1, sizeof(*cs));

	cs->env = *env;
	cs->many_credits = env->by_grants;
	TAILQ_INIT(&cs->all);
	TAILQ_INIT(&cs->waiting);
	TAILQ_INIT(&cs->granted);
	TAILQ_INIT(&cs->queue);
	captures_init_held(cs);
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
	capture_end_walks(c);
	TAILQ_REMOVE(&cs->all, c, entry);
	ledger_close(c->ledger);
	c->ledger = NULL;
	capture_free(c);
}

void captures_free(struct captures *cs)
{
	if (!cs)
		return;
	cs->n_watches = 0; /* their owners are freed already */
	while (!TAILQ_EMPTY(&cs->all))
		capture_remove(TAILQ_FIRST(&cs->all));
	loop_timer_cancel(cs->env.loop, &cs->queue_timer);
	loop_timer_cancel(cs->env.loop, &cs->credit_timer);
	captures_forget_held(cs);
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

void capture_set_retried_by(struct capture *c, const char *name)
{
	free(c->retried_by);
	c->retried_by = xstrdup(name);
}

struct captures_use captures_use_of(const struct captures *cs, const char *name)
{
	struct captures_use use = { 0 };
	const struct capture *c;

	TAILQ_FOREACH (c, &cs->all, entry) {
		if (capture_has_ended(c) || strcmp(c->retried_by ? c->retried_by : c->owner, name))
			continue;
		use.n++;
		for (size_t i = 0; i < c->n_hosts; i++)
			use.bytes += c->hosts[i].bytes;
	}
	return use;
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

static size_t count_hosts_from(const struct captures *cs, enum capture_state least)
{
	const struct capture *c;
	size_t n = 0;

	TAILQ_FOREACH (c, &cs->all, entry)
		n += c->state >= least ? c->n_hosts : 0;
	return n;
}

static void drop_oldest_ended(struct captures *cs)
{
	struct capture *c = TAILQ_LAST(&cs->all, capture_list);

	while (!capture_has_ended(c))
		c = TAILQ_PREV(c, capture_list, entry);
	capture_remove(c);
}

/* Ended captures make room for those whose end is being written, which takes as much again: a large fleet's would be in memory
 * three times. */
static void make_room(void *arg)
{
	struct captures *cs = arg;

	while (cs->n_ended && count_hosts_from(cs, CAP_COMMITTING) > ENDED_HOSTS_KEPT)
		drop_oldest_ended(cs);
}

/* ---- the end ---- */

/* Numbers of hosts by their end. One pass counts all three, because 10,000 hosts do not fit into the
 * processor's cache. */
struct result_counts {
	size_t complete, partial, failed;
};

static struct result_counts count_results(const struct capture *c)
{
	struct result_counts n = { 0 };

	for (size_t i = 0; i < c->n_hosts; i++) {
		n.complete += c->hosts[i].state == HOST_COMPLETE;
		n.partial += c->hosts[i].state == HOST_PARTIAL;
		n.failed += c->hosts[i].state == HOST_FAILED;
	}
	return n;
}

/* A file that a retry may request is not released: its agent keeps it to the end of the lease. */
static bool is_to_be_released(const struct capture_host *h)
{
	return h->capture->state != CAP_COMMITTED || !capture_host_may_hold_file(h);
}

static void send_release(struct capture *c)
{
	struct buf message = BUF_INIT;

	message_release(&message, c->session);
	capture_send(c, &message, is_to_be_released);
}

static void log_end(const struct capture *c, const struct result_counts *n)
{
	if (c->state == CAP_COMMITTED)
		log_info("AGG-COMMITTED",
			 "session=%s run=\"%s\" complete=%zu partial=%zu failed=%zu", c->session,
			 c->run, n->complete, n->partial, n->failed);
	else
		log_warn("AGG-FAILED", "session=%s run=\"%s\" failed=%zu reason=\"%s\"", c->session,
			 c->run, n->failed, c->error.msg);
}

void capture_end(struct capture *c, enum capture_event event)
{
	struct captures *cs = c->captures;
	struct result_counts n;

	capture_queue_leave(c);
	loop_timer_cancel(cs->env.loop, &c->timer);
	if (!capture_on(c, event))
		return;
	n = count_results(c);
	capture_drop_observations(c);
	c->store_error.code = 0;
	cs->n_active--;
	cs->n_ended++;
	TAILQ_REMOVE(&cs->all, c, entry);
	TAILQ_INSERT_HEAD(&cs->all, c, entry);
	cs->stats.hosts_failed += n.failed;
	cs->stats.committed += c->state == CAP_COMMITTED;
	cs->stats.failed += capture_has_failed(c);
	log_end(c, &n);
	/* A lost capture is the other aggregator's: its agents are told nothing. */
	if (c->state != CAP_LOST)
		send_release(c);
	capture_notify_durable(c, c->state == CAP_LOST ? &c->error : NULL);
	capture_notify(c);
	capture_queue_schedule(cs);
	while (cs->n_ended > ENDED_KEPT ||
	       (cs->n_ended > 1 && count_hosts_from(cs, CAP_COMMITTED) > ENDED_HOSTS_KEPT))
		drop_oldest_ended(cs);
}

static bool has_any_file(const struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->hosts[i].stored)
			return true;
	}
	return false;
}

/* All its hosts have ended. It is committed if any of them has a file. */
static void finish(struct capture *c)
{
	if (c->cancelled)
		err_set(&c->error, ERR_CANCELLED, "cancelled");
	else if (!c->error.code && !has_any_file(c))
		err_set(&c->error, ERR_NOT_FOUND, "no host delivered a file");
	if (c->state == CAP_ASKING) {
		capture_end(c, EVENT_HOSTS_ENDED);
		return;
	}
	capture_queue_leave(c);
	loop_timer_cancel(c->captures->env.loop, &c->timer);
	capture_step_finish(c);
	capture_retry_finish(c);
	capture_check_pods(c);
	if (!capture_on(c, EVENT_HOSTS_ENDED))
		return;
	jobs_post(c->captures->env.jobs, make_room, c->captures);
	capture_store(c);
	capture_notify(c);
}

bool capture_finish_if_ended(struct capture *c)
{
	if (c->n_ended < c->n_hosts)
		return false;
	if (capture_is_open(c))
		finish(c);
	return true;
}

static void go_on_without_them(struct capture *c)
{
	capture_queue_schedule(c->captures);
	if (!capture_finish_if_ended(c))
		capture_notify(c);
}

void capture_host_ended(struct capture_host *h)
{
	h->capture->n_ended++;
	go_on_without_them(h->capture);
}

void capture_hosts_ended(struct capture *c)
{
	capture_drop_credits(c);
	go_on_without_them(c);
}

/* ---- the aggregator stops ---- */

/* From here on failed writes are not repeated: the next aggregator carries the captures on from what is
 * stored. */
void captures_begin_stop(struct captures *cs)
{
	struct capture *c;

	cs->stopping = true;
	TAILQ_FOREACH (c, &cs->all, entry) {
		if (c->ledger)
			ledger_stop(c->ledger);
	}
}

void captures_refuse_waiting(struct captures *cs)
{
	struct capture *c;
	struct err e;

	err_set(&e, ERR_BUSY, "the aggregator is stopping");
	TAILQ_FOREACH (c, &cs->all, entry)
		capture_notify_durable(c, &e);
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

/* ---- the window ---- */

/* The functions fail_*() return false if hosts are left for the next turn. */
static bool fail_missing(struct capture *c)
{
	size_t failed = 0;
	char grace[80];

	snprintf(grace, sizeof(grace), "the grace of %.3g s after the window (--grace gives more)",
		 (double)c->grace_ns / NS_PER_S);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (capture_host_has_ended(h))
			continue;
		if (failed++ == TURN_FAILURES)
			return false;
		if (h->stored)
			capture_host_failed(h, REASON_TIMEOUT,
					    "the agent's report did not come within %s", grace);
		else if (h->upload_error)
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
	return true;
}

static bool fail_unarmed(struct capture *c)
{
	size_t failed = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (h->state != HOST_ARMING || h->needs_recording)
			continue;
		if (h->is_left)
			continue; /* the next agent is asked */
		if (failed++ == TURN_FAILURES)
			return false;
		capture_host_failed(h, REASON_UNRESPONSIVE, "the agent did not answer in time");
	}
	return true;
}

static bool fail_disconnected(struct capture *c, int64_t now_ns)
{
	size_t failed = 0;

	c->next_reconnect_by_ns = INT64_MAX;
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (!h->reconnect_by_ns || capture_host_has_ended(h))
			continue;
		if (h->reconnect_by_ns <= now_ns && failed++ == TURN_FAILURES) {
			c->next_reconnect_by_ns = h->reconnect_by_ns;
			return false;
		}
		if (h->reconnect_by_ns <= now_ns)
			capture_host_failed(h, REASON_LOST, "the agent's connection ended");
		else if (h->reconnect_by_ns < c->next_reconnect_by_ns)
			c->next_reconnect_by_ns = h->reconnect_by_ns;
	}
	return true;
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

/* Does everything that is due now; the capture may go through several states. */
static void on_due(void *arg)
{
	struct capture *c = arg;
	int64_t now_ns = captures_now(c->captures);
	bool changed = false, all = true;

	if (c->captures->stopping)
		return;
	if (now_ns >= c->t0_ns)
		changed = capture_on(c, EVENT_T0);
	if (now_ns >= c->t0_ns + c->duration_ns)
		changed |= capture_on(c, EVENT_T1);
	if (changed)
		capture_notify(c);
	if (now_ns >= c->next_reconnect_by_ns)
		all = fail_disconnected(c, now_ns);
	if (now_ns >= c->arm_by_ns && !capture_extend_arming(c, now_ns))
		all &= fail_unarmed(c);
	if (now_ns >= c->deadline_ns && !capture_extend_deadline(c, now_ns))
		all &= fail_missing(c);
	if (!capture_is_open(c))
		return;
	if (all)
		wake_at(c, now_ns);
	else
		capture_wake(c);
}

void capture_wake(struct capture *c)
{
	if (c->state >= CAP_ARMING && capture_is_open(c))
		loop_timer_in(c->captures->env.loop, &c->timer, 0, on_due, c);
}

/* ---- on request ---- */

void capture_stop(struct capture *c)
{
	if (capture_is_queued(c))
		(void)capture_cancel(c);
	else
		capture_stop_at(c, captures_now(c->captures));
}

void capture_stop_by(struct capture *c, const char *by)
{
	const struct captures_env *env = &c->captures->env;

	if (!capture_has_ended(c) && env->stopped)
		env->stopped(env->admit_arg, c, by);
	capture_stop(c);
}

void capture_stop_at(struct capture *c, int64_t t1_ns)
{
	if (t1_ns < c->t0_ns + MIN_WINDOW_NS)
		t1_ns = c->t0_ns + MIN_WINDOW_NS;
	if (c->state >= CAP_UPLOADING || t1_ns >= c->t0_ns + c->duration_ns)
		return;
	if (c->stop_at_ns && c->stop_at_ns <= t1_ns)
		return;
	c->stop_at_ns = t1_ns;
	capture_store(c);
}

bool capture_cancel(struct capture *c)
{
	if (!capture_is_open(c))
		return false;
	c->cancelled = true;
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].old_result)
			c->hosts[i].stored = false;
	}
	capture_fail_hosts(c, capture_any_host, REASON_CANCELLED, "on request");
	return true;
}
