/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retry: a second attempt for the hosts of a committed session that have no file. A host that still holds its
 * file uploads it. The others record again, all in one new window; their T0 is stored with each host, as it
 * is not the session's.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "json/packed.h"
#include "aggregator/captures/arm_message.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define WARNINGS_MAX 100

bool capture_is_retry(const struct capture *c)
{
	return c->revision > 1;
}

/* ---- from the manifest ---- */

struct retry_source {
	json_t *manifest; /* without its hosts */
	struct pool kept;
	struct capture_host *hosts; /* as they begin; they belong to no capture yet */
	size_t n_hosts;
};

/* Gives the host its earlier result: it has ended. `text` is the result's. */
static void keep_result(struct capture_host *h, const json_t *result, const char *text,
			struct pool *kept)
{
	h->old_result = pool_text(kept, text);
	h->stored = true;
	h->n_files = (unsigned int)json_array_size(json_object_get(result, "files"));
	h->bytes = (uint64_t)json_get_int(result, "bytes");
	h->state = strcmp(json_get_text(result, "state"), "complete") ? HOST_PARTIAL
								      : HOST_COMPLETE;
}

static void read_host(struct retry_source *s, size_t i, const json_t *results)
{
	struct capture_host *h = &s->hosts[i];
	json_t *result = packed_get(results, i);

	h->name = pool_text(&s->kept, json_get_text(result, "host"));
	h->reason = h->detail = "";
	if (*json_get_text(result, "file"))
		keep_result(h, result, packed_text(results, i), &s->kept);
	json_decref(result);
}

struct retry_source *retry_source_of(json_t *manifest_taken)
{
	struct retry_source *s = xcalloc(1, sizeof(*s));
	const json_t *results = json_object_get(manifest_taken, "hosts");

	s->manifest = manifest_taken;
	s->n_hosts = json_array_size(results);
	s->hosts = xcalloc(s->n_hosts + 1, sizeof(*s->hosts));
	for (size_t i = 0; i < s->n_hosts; i++)
		read_host(s, i, results);
	json_object_del(s->manifest, "hosts");
	return s;
}

int retry_source_read(struct store *store, const char *session, struct retry_source **out,
		      struct err *e)
{
	json_t *manifest;
	int rc = session_load_manifest(store, session, &manifest, e);

	*out = NULL;
	if (rc)
		return rc;
	rc = session_check_plan(manifest, json_object_get(manifest, "hosts"), e);
	if (rc) {
		err_prefix(e, "the manifest of session %.64s", session);
		json_decref(manifest);
		return rc;
	}
	*out = retry_source_of(manifest);
	return 0;
}

void retry_source_free(struct retry_source *s)
{
	if (!s)
		return;
	json_decref(s->manifest);
	pool_release(&s->kept);
	free(s->hosts);
	free(s);
}

/* Moves the source's hosts to the capture. */
static void take_hosts(struct capture *c, struct retry_source *s)
{
	c->kept = s->kept;
	c->hosts = s->hosts;
	c->n_hosts = s->n_hosts;
	c->last_detail = "";
	for (size_t i = 0; i < c->n_hosts; i++) {
		c->hosts[i].capture = c;
		c->n_ended += c->hosts[i].old_result != NULL;
	}
	s->kept = (struct pool){ 0 };
	s->hosts = NULL;
	s->n_hosts = 0;
}

static int build(struct captures *cs, struct retry_source *s, int64_t grace_ns,
		 struct capture **out, struct err *e)
{
	const json_t *request = json_object_get(s->manifest, "request");
	int64_t revision = json_get_int(s->manifest, "revision");
	struct capture *c = capture_new(cs);
	int rc;

	capture_load(c, s->manifest, s->manifest);
	take_hosts(c, s);
	c->revision = (unsigned int)(revision > 0 ? revision : 1) + 1;
	c->lead_ns = c->snapshot ? 0 : capture_lead(cs, c->n_hosts - c->n_ended, 0);
	c->grace_given_ns = grace_ns ? grace_ns : json_get_int(request, "grace_given_ns");
	c->clock_shift_ns = json_get_int(request, "clock_shift_ns");
	capture_set_deadline(c, captures_now(cs));
	rc = capture_load_options(c, request, e);
	if (!rc && c->n_ended == c->n_hosts)
		rc = err_set(e, ERR_EXISTS,
			     "session %s has a file of every host; begin a new capture to get what "
			     "partial hosts miss",
			     c->session);
	if (rc)
		capture_free(c);
	else
		*out = c;
	return rc;
}

/* ---- hosts ---- */

/* The state of a host: uploading if its agent holds a file, else arming, to record again. `host` is NULL if it is
 * not connected. */
static enum host_state first_state(const struct capture_host *h, const struct host *host)
{
	const struct host_held *held = host ? host_find_held(host, h->capture->session) : NULL;

	return held && held->undelivered ? HOST_UPLOADING : HOST_ARMING;
}

void capture_retry_update_states(struct capture *c)
{
	size_t at = 0;

	capture_find_others(c);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (!h->old_result)
			h->state = first_state(h, capture_host_next_agent(h, &at));
	}
}

static void prepare_hosts(struct capture *c)
{
	size_t at = 0;

	capture_find_others(c);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];
		const struct host *host;

		if (capture_host_has_ended(h))
			continue;
		host = capture_host_next_agent(h, &at);
		h->instance = host ? host->instance : 0;
		h->state = first_state(h, host);
		h->needs_recording = h->state == HOST_ARMING;
	}
	capture_fail_unreachable(c);
}

static bool must_record(const struct capture_host *h)
{
	return h->needs_recording && !capture_host_has_ended(h);
}

bool capture_retry_begins_before(const struct capture *c, int64_t ns)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (must_record(&c->hosts[i]) && c->hosts[i].t0_ns < ns)
			return true;
	}
	return false;
}

bool capture_host_has_own_window(const struct capture_host *h)
{
	return h->t0_ns && h->t0_ns != h->capture->t0_ns;
}

static bool is_arming(const struct capture_host *h)
{
	return h->state == HOST_ARMING;
}

/* A snapshot's window is of the clock on which it was taken. On another one, after a restart, it would be cut from the
 * rings at a wrong place, by as much as the two differ. */
static void refuse_window_of_other_clock(struct capture *c)
{
	if (c->snapshot && !session_clock_knows(c->captures->env.clock, c->clock_shift_ns))
		capture_fail_hosts(
			c, is_arming, REASON_REFUSED,
			"the session clock was set anew since this snapshot: its window cannot "
			"be found in the rings any more");
}

/* Chooses one window for all hosts that must record and are not asked yet. A snapshot keeps its window, which
 * may still be in their rings. */
void capture_retry_choose_window(struct capture *c)
{
	int64_t t0_ns = c->snapshot ? c->t0_ns : captures_now(c->captures) + c->lead_ns;
	bool any = false;

	refuse_window_of_other_clock(c);
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!must_record(&c->hosts[i]))
			continue;
		c->hosts[i].t0_ns = t0_ns;
		any = true;
	}
	if (!any)
		return;
	capture_set_deadline(c, t0_ns + c->duration_ns);
	c->arm_by_ns = capture_arm_by(c, t0_ns);
}

void capture_retry_finish(struct capture *c)
{
	size_t n = 0;
	char start[25];

	for (size_t i = 0; i < c->n_hosts && capture_is_retry(c); i++) {
		const struct capture_host *h = &c->hosts[i];

		if (h->old_result || !capture_host_has_own_window(h) || ++n > WARNINGS_MAX)
			continue;
		time_iso(h->t0_ns, start);
		json_array_append_new(
			c->warnings,
			json_sprintf("%s was recorded again, from %s on: not in the window of "
				     "the others",
				     h->name, start));
	}
	if (n > WARNINGS_MAX)
		json_array_append_new(c->warnings,
				      json_sprintf("%zu more hosts were recorded again: t0_ns of "
						   "each says when its window began",
						   n - WARNINGS_MAX));
}

/* First cancels a capture of the session that the agent has and cannot upload. */
static void arm_anew(const struct capture_host *h, struct host *host)
{
	struct buf message = BUF_INIT;

	if (host_find_held(host, h->capture->session)) {
		message_cancel(&message, h->capture->session);
		host_send(host, &message);
		buf_release(&message);
	}
	message_arm(&message, h->capture, h->t0_ns);
	host_send(host, &message);
	buf_release(&message);
}

static void ask(struct capture_host *h, struct host *host)
{
	if (!h->is_to_be_asked || capture_host_has_ended(h))
		return;
	h->is_to_be_asked = false;
	if (h->state == HOST_UPLOADING)
		capture_host_request_credit(h);
	else
		arm_anew(h, host);
}

/* The windows are in the durable record, so recovery would know them. */
void capture_retry_ask(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (capture_host_has_ended(h))
			continue;
		h->is_to_be_asked |= h->needs_recording || h->state == HOST_UPLOADING;
		h->needs_recording = false;
	}
	capture_visit(c, ask);
}

/* ---- life ---- */

static void plan_recordings(struct capture *c)
{
	capture_retry_choose_window(c);
	if (capture_is_open(c))
		capture_store(c);
}

/* The agent no longer holds the file that it reported. */
bool capture_retry_lost_file(struct capture_host *h)
{
	struct capture *c = h->capture;

	if (!capture_is_retry(c) || h->state != HOST_UPLOADING || h->stored || h->t0_ns)
		return false;
	capture_host_drop_credit(h);
	h->state = HOST_ARMING;
	if (capture_host_is_other(h)) {
		capture_host_failed(h, REASON_UNREACHABLE, CAPTURE_NOT_CONNECTED);
		return true;
	}
	h->bytes = h->bytes_done = 0;
	h->needs_recording = true;
	plan_recordings(c);
	return true;
}

void capture_retry_begin(struct capture *c)
{
	capture_set_deadline(c, captures_now(c->captures));
	prepare_hosts(c);
	plan_recordings(c);
}

static void on_begin(void *arg)
{
	struct capture *c = arg;

	if (!c->captures->stopping)
		capture_retry_begin(c);
}

/* A large retry begins in a callback of its own: building it has taken milliseconds. */
static void begin_soon(struct capture *c)
{
	if (c->n_hosts > CAPTURE_TURN_HOSTS)
		loop_timer_in(c->captures->env.loop, &c->timer, 0, on_begin, c);
	else
		capture_retry_begin(c);
}

static int check_may_retry(const struct captures *cs, const char *session,
			   const struct capture *old, struct err *e)
{
	int rc = capture_check_ready(cs, e);

	if (rc)
		return rc;
	if (old && !capture_has_ended(old))
		return err_set(e, ERR_EXISTS, "session %s is under way", session);
	if (session_store_has_left(cs->env.store, session))
		return err_set(
			e, ERR_BUSY,
			"session %s of an earlier run of the aggregator is not recovered yet",
			session);
	return 0;
}

int capture_retry(struct captures *cs, struct retry_source *s, int64_t grace_ns,
		  struct capture **out, struct err *e)
{
	const char *session = json_get_text(s->manifest, "session");
	struct capture *old = capture_find(cs, session);
	struct capture *c;
	int rc = check_may_retry(cs, session, old, e);

	if (!rc)
		rc = build(cs, s, grace_ns, &c, e);
	if (rc)
		return rc;
	capture_retry_update_states(c);
	if (capture_queue_must_wait(c))
		rc = capture_queue_enter(c, 0, e);
	if (rc) {
		capture_free(c);
		return rc;
	}
	if (old)
		capture_remove(old);
	capture_insert(c);
	log_info("AGG-RETRY", "session=%s revision=%u hosts=%zu queued=%d", c->session, c->revision,
		 c->n_hosts - c->n_ended, capture_is_queued(c));
	if (capture_is_queued(c))
		capture_store(c);
	else
		begin_soon(c);
	*out = c;
	return 0;
}

/* ---- recovery ---- */

/* Sets what the record and the store have of the hosts that the retry is for. */
void retry_source_add_left(struct retry_source *s, const json_t *recoverable)
{
	const json_t *record = json_object_get(recoverable, "record");
	size_t at = 0;

	for (size_t i = 0; i < s->n_hosts; i++) {
		struct capture_host *h = &s->hosts[i];
		json_t *host;

		if (h->old_result)
			continue;
		host = capture_record_next_host(record, &at, h->name);
		capture_load_agent(h, host);
		capture_load_stored(h, json_object_get(recoverable, "stored"));
		json_decref(host);
	}
}

static bool had_no_agent(const struct capture_host *h)
{
	return !h->instance;
}

static void recover_hosts(struct capture *c)
{
	c->next_reconnect_by_ns = capture_extend_for_agents(c);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (capture_host_has_ended(h))
			continue;
		h->state = h->t0_ns && !h->stored ? HOST_ARMING : HOST_UPLOADING;
		h->reconnect_by_ns = c->next_reconnect_by_ns;
	}
	capture_fail_hosts(c, had_no_agent, REASON_UNREACHABLE, "the agent was not connected");
	refuse_window_of_other_clock(c);
	capture_wake(c);
}

void capture_retry_recover(struct captures *cs, struct retry_source *s, const json_t *record,
			   unsigned int n)
{
	const json_t *plan = json_object_get(record, "plan");
	struct capture *c;
	struct err e;
	int rc = build(cs, s, json_get_int(plan, "grace_given_ns"), &c, &e);

	if (rc) {
		log_error("AGG-RESUMED", "session=%s reason=\"%s\"",
			  json_get_text(record, "session"), e.msg);
		return;
	}
	json_array_append_new(c->warnings,
			      json_string("the aggregator was restarted during a retry"));
	c->state = CAP_ARMING;
	capture_insert(c);
	log_warn("AGG-RESUMED", "session=%s revision=%u hosts=%zu clock_kept=%d", c->session,
		 c->revision, c->n_hosts - c->n_ended, cs->env.clock->kept);
	if (json_object_get(plan, "queued_until_ns"))
		capture_queue_recover(c, plan);
	capture_take_over(c, n, json_get_int(json_object_get(record, "owner"), "epoch"));
	if (!capture_is_queued(c))
		recover_hosts(c);
}
