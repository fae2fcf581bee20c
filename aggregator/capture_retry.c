/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A committed session is taken up again for the hosts that have no file. Who still holds one sends it:
 * the same window, nothing is recorded twice. The others record anew, all in one new window, whose T0
 * is told host by host, for it is not the session's.
 */
#include "aggregator/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/causality.h"
#include "aggregator/json_text.h"
#include "aggregator/messages.h"
#include "aggregator/options.h"
#include "aggregator/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"

bool capture_is_retry(const struct capture *c)
{
	return c->revision > 1;
}

json_t *capture_retry_hosts(const struct capture *c)
{
	json_t *names = json_array();

	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].kept)
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

	causality_check(job->store, job->doc, job->causality_ns);
	job->rc = session_retry_commit(job->store, job->session, job->doc, &job->e);
}

void capture_retry_run_undo(void *arg)
{
	struct store_job *job = arg;

	job->rc = session_retry_undo(job->store, job->session, &job->e);
}

/* ---- from the records ---- */

static int hex_digit(char ch)
{
	return ch >= '0' && ch <= '9' ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* False if it is no hex text of whole bytes. */
static bool load_hex(struct capture *c, const char *hex)
{
	size_t n = strlen(hex) / 2;

	c->options = xmalloc(n + 1);
	c->options_len = n;
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		c->options[i] = (uint8_t)(high << 4 | low);
	}
	return !hex[2 * n];
}

static void load_tracers(struct capture *c, const json_t *names)
{
	size_t n = json_array_size(names);

	if (!n)
		return;
	c->tracers = xcalloc(n + 1, sizeof(char *));
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(names, i));

		c->tracers[i] = xstrdup(name ? name : "");
	}
}

void capture_load(struct capture *c, const json_t *doc)
{
	const json_t *settings = json_object_get(doc, "settings");
	const json_t *warnings = json_object_get(doc, "warnings");

	c->session = xstrdup(json_get_text(doc, "session"));
	c->run = xstrdup(json_get_text(doc, "run"));
	c->origin = xstrdup(json_get_text(doc, "origin"));
	c->client_session = xstrdup(json_get_text(doc, "client_session"));
	c->t0_ns = json_get_int(doc, "t0_ns");
	c->duration_ns = json_get_int(doc, "duration_ns");
	c->settings = json_is_object(settings) ? json_deep_copy(settings) : json_object();
	c->warnings = json_is_array(warnings) ? json_deep_copy(warnings) : json_array();
	capture_step_load(c, doc);
}

/* Options given ready-made are in the plan only. */
int capture_load_options(struct capture *c, const json_t *plan, struct err *e)
{
	const json_t *resume = json_object_get(plan, "resume");

	if (!resume)
		return options_from_settings(c->settings, c->duration_ns, &c->options,
					     &c->options_len, e);
	load_tracers(c, json_object_get(resume, "tracers"));
	if (!load_hex(c, json_get_text(resume, "options")))
		return err_set(e, ERR_INVALID, "the plan of session %s is damaged", c->session);
	return 0;
}

/* Counts from then on as what it was. */
static void keep_host(struct capture_host *h, const json_t *result)
{
	h->kept = json_deep_copy(result);
	h->stored = true;
	h->n_files = (unsigned int)json_array_size(json_object_get(result, "files"));
	h->bytes = (uint64_t)json_get_int(result, "bytes");
	h->state = strcmp(json_get_text(result, "state"), "complete") ? HOST_PARTIAL
								      : HOST_COMPLETE;
	h->capture->n_over++;
}

static void load_hosts(struct capture *c, const json_t *results)
{
	size_t n = json_array_size(results);

	c->hosts = xcalloc(n + 1, sizeof(*c->hosts));
	c->n_hosts = n;
	for (size_t i = 0; i < n; i++) {
		const json_t *result = json_array_get(results, i);
		struct capture_host *h = &c->hosts[i];
		struct host *host;

		h->name = xstrdup(json_get_text(result, "host"));
		h->capture = c;
		host = registry_find(c->captures->agg->registry, h->name);
		if (*json_get_text(result, "file"))
			keep_host(h, result);
		else if (host && host->control)
			h->instance = host->instance;
	}
}

static int build(struct captures *cs, const json_t *manifest, const json_t *plan,
		 struct capture **out, struct err *e)
{
	const struct aggregator *agg = cs->agg;
	int64_t revision = json_get_int(manifest, "revision");
	struct capture *c = capture_new(cs);
	int rc;

	capture_load(c, manifest);
	load_hosts(c, json_object_get(manifest, "hosts"));
	c->revision = (unsigned int)(revision > 0 ? revision : 1) + 1;
	c->planned = true;
	c->state = CAP_UPLOADING;
	c->lead_ns = capture_lead(cs, c->n_hosts - c->n_over, 0);
	c->grace_ns = agg->conf.grace_ns;
	c->deadline_ns = aggregator_session_now(agg) + c->grace_ns;
	rc = capture_load_options(c, plan, e);
	if (!rc && c->n_over == c->n_hosts)
		rc = err_set(e, ERR_EXISTS,
			     "session %s has a file of every host; what a partial one misses can "
			     "only be captured anew",
			     c->session);
	if (rc)
		capture_free(c);
	else
		*out = c;
	return rc;
}

/* ---- asking ---- */

/* Who still has the file sends it; who has nothing records anew. */
static void decide(struct capture_host *h)
{
	struct host *host = capture_host_live(h);
	const struct host_held *held = host ? host_find_held(host, h->capture->session) : NULL;

	if (!host)
		capture_host_failed(h, "unreachable", "the agent is not connected");
	else if (held && held->has_more)
		h->state = HOST_UPLOADING;
	else
		h->again = true;
}

static void warn_again(struct capture_host *h)
{
	char start[25];

	time_iso(h->t0_ns, start);
	json_array_append_new(
		h->capture->warnings,
		json_sprintf("%s was recorded again, from %s on: not in the window of "
			     "the others",
			     h->name, start));
}

/* One window for all that record anew and have none yet. */
static void choose_window(struct capture *c)
{
	int64_t t0_ns = aggregator_session_now(c->captures->agg) + c->lead_ns;

	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (!h->again || h->t0_ns || capture_host_is_over(h))
			continue;
		h->t0_ns = t0_ns;
		warn_again(h);
		c->deadline_ns = t0_ns + c->duration_ns + c->grace_ns;
		c->arm_by_ns = capture_arm_by(c, t0_ns);
	}
}

/* What an agent has of the session and cannot send is in the way. */
static void arm_again(struct capture_host *h)
{
	struct host *host = capture_host_live(h);
	struct buf message = BUF_INIT;

	h->again = false;
	if (host && host_find_held(host, h->capture->session)) {
		message_cancel(&message, h->capture->session);
		capture_host_tell(h, &message);
		buf_release(&message);
	}
	message_arm(&message, h->capture, h->t0_ns);
	capture_host_tell(h, &message);
	buf_release(&message);
}

static void act(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (capture_host_is_over(h))
			continue;
		if (h->again && h->t0_ns)
			arm_again(h);
		else if (h->state == HOST_UPLOADING)
			capture_host_want_credit(h);
	}
}

/* ---- what is kept of it, for after a crash ---- */

static json_t *windows_json(const struct capture *c)
{
	json_t *o = json_object();

	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].kept && c->hosts[i].t0_ns)
			json_put_int(o, c->hosts[i].name, c->hosts[i].t0_ns);
	}
	return o;
}

static json_t *record(const struct capture *c)
{
	json_t *o = json_object();

	json_put(o, "hosts", capture_retry_hosts(c));
	json_put_int(o, "revision", c->revision);
	json_put(o, "instances", capture_instances(c));
	json_put(o, "windows", windows_json(c));
	return o;
}

static void done_record(void *arg);

/* Nobody is asked for anything before a crash could not make it forgotten. */
static void ask_those_decided(struct capture *c)
{
	choose_window(c);
	c->storing = true;
	store_job_begin(c, record(c), run_record, done_record);
}

static bool has_undecided(const struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->hosts[i].again && !capture_host_is_over(&c->hosts[i]))
			return true;
	}
	return false;
}

static void done_record(void *arg)
{
	struct store_job *job = arg;
	struct capture *c = job->capture;

	c->armed = c->begun = true;
	c->storing = false;
	store_job_note(job, "retry");
	capture_tell_kept(c);
	if (capture_settle(c))
		goto out;
	if (job->rc) {
		c->error = job->e;
		(void)capture_cancel(c);
		goto out;
	}
	act(c);
	capture_wake(c);
	if (has_undecided(c))
		ask_those_decided(c);
out:
	store_job_free(job);
}

/* The agent dropped meanwhile what it said to hold. */
bool capture_retry_lost_file(struct capture_host *h)
{
	struct capture *c = h->capture;

	if (!capture_is_retry(c) || h->state != HOST_UPLOADING || h->stored || h->t0_ns)
		return false;
	capture_host_drop_credit(h);
	h->state = HOST_ARMING;
	h->bytes = h->bytes_done = 0;
	h->again = true;
	if (!c->storing)
		ask_those_decided(c);
	return true;
}

int capture_retry(struct captures *cs, const json_t *manifest, const json_t *plan,
		  struct capture **out, struct err *e)
{
	struct capture *old = capture_find(cs, json_get_text(manifest, "session"));
	struct capture *c;
	int rc = capture_check_begin(cs, e);

	if (!rc && old && !capture_is_over(old))
		rc = err_set(e, ERR_EXISTS, "session %s is under way", old->session);
	if (!rc)
		rc = build(cs, manifest, plan, &c, e);
	if (rc)
		return rc;
	if (old)
		capture_remove(old);
	capture_insert(c);
	log_info("AGG-RETRY", "session=%s revision=%u hosts=%zu", c->session, c->revision,
		 c->n_hosts - c->n_over);
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!capture_host_is_over(&c->hosts[i]))
			decide(&c->hosts[i]);
	}
	ask_those_decided(c);
	*out = c;
	return 0;
}

/* ---- after a crash ---- */

static void resume_host(struct capture_host *h, const json_t *doc, int64_t away_until_ns)
{
	const json_t *retry = json_object_get(doc, "retry");

	h->instance = strtoull(json_get_text(json_object_get(retry, "instances"), h->name), NULL,
			       16);
	h->t0_ns = json_get_int(json_object_get(retry, "windows"), h->name);
	h->state = h->t0_ns ? HOST_ARMING : HOST_UPLOADING;
	h->away_until_ns = away_until_ns;
	capture_load_stored(h, json_object_get(doc, "stored"));
	if (h->t0_ns)
		warn_again(h);
	if (!h->instance)
		capture_host_failed(h, "unreachable", "the agent was not connected");
}

static void resume_hosts(struct capture *c, const json_t *doc)
{
	c->away_next_ns = capture_await_agents(c);
	c->begun = c->armed = true;
	c->storing = true; /* it does not end on the way */
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!capture_host_is_over(&c->hosts[i]))
			resume_host(&c->hosts[i], doc, c->away_next_ns);
	}
	c->storing = false;
	if (!capture_settle(c))
		capture_wake(c);
}

void capture_retry_resume(struct captures *cs, const json_t *doc)
{
	const json_t *manifest = json_object_get(doc, "manifest");
	const json_t *plan = json_object_get(doc, "plan");
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
		 c->revision, c->n_hosts - c->n_over, cs->agg->clock_kept);
	resume_hosts(c, doc);
}
