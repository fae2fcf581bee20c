/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retry: a second attempt for the hosts of a committed session that have no file. A host that still holds its
 * file uploads it. The others record again, all in one new window; their T0 is stored with each host, as it
 * is not the session's.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/evidence/causality.h"
#include "json/json_text.h"
#include "aggregator/captures/arm_message.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/captures/options.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

bool capture_is_retry(const struct capture *c)
{
	return c->revision > 1;
}

json_t *capture_retry_hosts(const struct capture *c)
{
	json_t *names = json_array();

	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].old_result)
			json_array_append_new(names, json_text(c->hosts[i].name));
	}
	return names;
}

/* ---- the store, on a worker ---- */

static void run_record(void *arg)
{
	struct store_job *job = arg;

	job->rc = session_retry_begin(job->store, job->session, job->doc, &job->e);
}

void capture_retry_run_commit(void *arg)
{
	struct store_job *job = arg;

	capture_store_notes(job->store, job->copy);
	job->doc = capture_manifest_json(job->copy);
	causality_check(job->store, job->doc, job->causality_ns);
	job->rc = session_retry_commit(job->store, job->session, job->doc, &job->e);
}

void capture_retry_run_undo(void *arg)
{
	struct store_job *job = arg;

	job->rc = session_retry_undo(job->store, job->session, &job->e);
}

/* ---- from the records ---- */

/* The host has ended, with its earlier result. */
static void copy_result(struct capture_host *h, const json_t *result)
{
	h->old_result = json_deep_copy(result);
	h->stored = true;
	h->n_files = (unsigned int)json_array_size(json_object_get(result, "files"));
	h->bytes = (uint64_t)json_get_int(result, "bytes");
	h->state = strcmp(json_get_text(result, "state"), "complete") ? HOST_PARTIAL
								      : HOST_COMPLETE;
	h->capture->n_ended++;
}

static void load_hosts(struct capture *c, const json_t *results)
{
	size_t n = json_array_size(results);

	c->hosts = xcalloc(n + 1, sizeof(*c->hosts));
	c->n_hosts = n;
	for (size_t i = 0; i < n; i++) {
		const json_t *result = json_array_get(results, i);
		struct capture_host *h = &c->hosts[i];

		h->name = xstrdup(json_get_text(result, "host"));
		h->capture = c;
		if (*json_get_text(result, "file"))
			copy_result(h, result);
	}
}

static int build(struct captures *cs, const json_t *manifest, const json_t *plan,
		 struct capture **out, struct err *e)
{
	int64_t revision = json_get_int(manifest, "revision");
	struct capture *c = capture_new(cs);
	int rc;

	capture_load(c, manifest);
	load_hosts(c, json_object_get(manifest, "hosts"));
	c->revision = (unsigned int)(revision > 0 ? revision : 1) + 1;
	c->planned = true;
	c->state = CAP_UPLOADING;
	c->lead_ns = capture_lead(cs, c->n_hosts - c->n_ended, 0);
	c->grace_given_ns = json_get_int(json_object_get(plan, "resume"), "grace_given_ns");
	capture_set_deadline(c, captures_now(cs));
	rc = capture_load_options(c, plan, e);
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

/* Uploading if the agent holds a file, else arming: it records again. */
static enum host_state first_state(const struct capture_host *h)
{
	const struct host *host = capture_host_find_agent(h);
	const struct host_held *held = host ? host_find_held(host, h->capture->session) : NULL;

	return held && held->undelivered ? HOST_UPLOADING : HOST_ARMING;
}

void capture_retry_update_states(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].old_result)
			c->hosts[i].state = first_state(&c->hosts[i]);
	}
}

static void prepare_host(struct capture_host *h)
{
	const struct host *host = capture_host_find_agent(h);

	h->instance = host ? host->instance : 0;
	h->state = first_state(h);
	h->needs_recording = h->state == HOST_ARMING;
	if (!host)
		capture_host_failed(h, REASON_UNREACHABLE, "the agent is not connected");
}

static void warn_of_window(struct capture_host *h)
{
	char start[25];

	time_iso(h->t0_ns, start);
	json_array_append_new(
		h->capture->warnings,
		json_sprintf("%s was recorded again, from %s on: not in the window of "
			     "the others",
			     h->name, start));
}

/* Sets one window for all hosts that must record and have none yet. */
static void choose_window(struct capture *c)
{
	int64_t t0_ns = captures_now(c->captures) + c->lead_ns;

	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (!h->needs_recording || h->t0_ns || capture_host_has_ended(h))
			continue;
		h->t0_ns = t0_ns;
		warn_of_window(h);
		capture_set_deadline(c, t0_ns + c->duration_ns);
		c->arm_by_ns = capture_arm_by(c, t0_ns);
	}
}

/* Cancels first what the agent has of the session and cannot upload. */
static void arm_anew(struct capture_host *h)
{
	struct host *host = capture_host_find_own_agent(h);
	struct buf message = BUF_INIT;

	h->needs_recording = false;
	if (host && host_find_held(host, h->capture->session)) {
		message_cancel(&message, h->capture->session);
		capture_host_send(h, &message);
		buf_release(&message);
	}
	message_arm(&message, h->capture, h->t0_ns);
	capture_host_send(h, &message);
	buf_release(&message);
}

static void ask_hosts(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (capture_host_has_ended(h))
			continue;
		if (h->needs_recording && h->t0_ns)
			arm_anew(h);
		else if (h->state == HOST_UPLOADING)
			capture_host_request_credit(h);
	}
}

/* ---- the record, for recovery ---- */

static json_t *windows_json(const struct capture *c)
{
	json_t *o = json_object();

	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].old_result && c->hosts[i].t0_ns)
			json_put_int(o, c->hosts[i].name, c->hosts[i].t0_ns);
	}
	return o;
}

static json_t *record_json(const struct capture *c)
{
	json_t *o = json_object();

	json_put(o, "hosts", capture_retry_hosts(c));
	json_put_int(o, "revision", c->revision);
	json_put(o, "instances", capture_instances(c));
	json_put(o, "windows", windows_json(c));
	if (c->state == CAP_QUEUED)
		json_put_int(o, "queued_until_ns", c->queued_until_ns);
	return o;
}

static void on_record_stored(void *arg);

static void store_record(struct capture *c)
{
	c->storing = true;
	store_job_begin(c, record_json(c), run_record, on_record_stored);
}

/* Hosts are asked when the record is durable: after a crash recovery knows of them. */
static void plan_recordings(struct capture *c)
{
	choose_window(c);
	store_record(c);
}

static bool has_unplanned(const struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->hosts[i].needs_recording && !capture_host_has_ended(&c->hosts[i]))
			return true;
	}
	return false;
}

static void on_record_stored(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;

	c->plan_done = true;
	c->armed = c->state != CAP_QUEUED;
	c->storing = false;
	store_job_note(job, "retry");
	if (job->rc) {
		err_set(&c->not_durable, ERR_BUSY, "the store did not take the retry: %s",
			job->e.msg);
		c->error = c->not_durable;
	}
	capture_notify_durable(c);
	if (capture_finish_if_ended(c))
		goto out;
	if (job->rc) {
		capture_fail_all(c, REASON_STORE, c->error.msg);
		goto out;
	}
	if (c->state == CAP_QUEUED) {
		capture_queue_schedule(c->captures);
		goto out;
	}
	ask_hosts(c);
	capture_wake(c);
	if (has_unplanned(c))
		plan_recordings(c);
out:
	store_job_free(job);
}

/* The agent no longer holds the file that it reported. */
bool capture_retry_lost_file(struct capture_host *h)
{
	struct capture *c = h->capture;

	if (!capture_is_retry(c) || h->state != HOST_UPLOADING || h->stored || h->t0_ns)
		return false;
	capture_host_drop_credit(h);
	h->state = HOST_ARMING;
	h->bytes = h->bytes_done = 0;
	h->needs_recording = true;
	if (!c->storing)
		plan_recordings(c);
	return true;
}

void capture_retry_begin(struct capture *c)
{
	c->state = CAP_UPLOADING;
	capture_set_deadline(c, captures_now(c->captures));
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!capture_host_has_ended(&c->hosts[i]))
			prepare_host(&c->hosts[i]);
	}
	plan_recordings(c);
}

int capture_retry(struct captures *cs, const json_t *manifest, const json_t *plan,
		  struct capture **out, struct err *e)
{
	struct capture *old = capture_find(cs, json_get_text(manifest, "session"));
	struct capture *c;
	int rc = capture_check_ready(cs, e);

	if (!rc && old && !capture_has_ended(old))
		rc = err_set(e, ERR_EXISTS, "session %s is under way", old->session);
	if (!rc)
		rc = build(cs, manifest, plan, &c, e);
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
		 c->n_hosts - c->n_ended, c->state == CAP_QUEUED);
	if (c->state == CAP_QUEUED)
		store_record(c);
	else
		capture_retry_begin(c);
	*out = c;
	return 0;
}

/* ---- recovery ---- */

static void recover_host(struct capture_host *h, const json_t *doc, int64_t reconnect_by_ns)
{
	const json_t *retry = json_object_get(doc, "retry");

	h->instance = strtoull(json_get_text(json_object_get(retry, "instances"), h->name), NULL,
			       16);
	h->t0_ns = json_get_int(json_object_get(retry, "windows"), h->name);
	h->state = h->t0_ns ? HOST_ARMING : HOST_UPLOADING;
	h->reconnect_by_ns = reconnect_by_ns;
	capture_load_stored(h, json_object_get(doc, "stored"));
	if (h->t0_ns)
		warn_of_window(h);
	if (!h->instance)
		capture_host_failed(h, REASON_UNREACHABLE, "the agent was not connected");
}

static void recover_hosts(struct capture *c, const json_t *doc)
{
	c->next_reconnect_by_ns = capture_extend_for_agents(c);
	c->armed = true;
	c->storing = true; /* a host that fails in the loop below must not finish the capture */
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!capture_host_has_ended(&c->hosts[i]))
			recover_host(&c->hosts[i], doc, c->next_reconnect_by_ns);
	}
	c->storing = false;
	if (!capture_finish_if_ended(c))
		capture_wake(c);
}

void capture_retry_recover(struct captures *cs, const json_t *doc)
{
	const json_t *manifest = json_object_get(doc, "manifest");
	const json_t *plan = json_object_get(doc, "plan");
	const json_t *retry = json_object_get(doc, "retry");
	struct capture *c;
	struct err e;

	if (build(cs, manifest, json_is_object(plan) ? plan : NULL, &c, &e)) {
		log_error("AGG-RESUMED", "session=%s reason=\"%s\"",
			  json_get_text(manifest, "session"), e.msg);
		return;
	}
	json_array_append_new(c->warnings,
			      json_string("the aggregator was restarted during a retry"));
	capture_insert(c);
	log_warn("AGG-RESUMED", "session=%s revision=%u hosts=%zu clock_kept=%d", c->session,
		 c->revision, c->n_hosts - c->n_ended, cs->env.clock->kept);
	c->plan_done = true;
	if (json_object_get(retry, "queued_until_ns"))
		capture_queue_recover(c, retry);
	else
		recover_hosts(c, doc);
}
