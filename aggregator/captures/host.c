/* SPDX-License-Identifier: Apache-2.0 */
/* One host of one capture: messages of its agent, its end. */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "aggregator/captures/arm_message.h"
#include "aggregator/evidence/notes.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/ledger.h"
#include "base/clean_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define LINES_MAX 100 /* in the log, of hosts that fail together */

static int compare_name(const void *key, const void *item)
{
	return strcmp(key, ((const struct capture_host *)item)->name);
}

struct capture_host *capture_find_host_by_name(struct capture *c, const char *host)
{
	return bsearch(host, c->hosts, c->n_hosts, sizeof(*c->hosts), compare_name);
}

struct capture_host *capture_find_host(struct capture *c, const char *host, uint64_t instance)
{
	struct capture_host *h = capture_find_host_by_name(c, host);

	return h && h->instance && h->instance == instance ? h : NULL;
}

bool capture_awaits_agent(struct capture *c, const char *host, uint64_t instance)
{
	const struct capture_host *h = capture_find_host_by_name(c, host);

	return h && h->instance != instance && h->reconnect_by_ns && !capture_host_has_ended(h);
}

bool capture_host_has_ended(const struct capture_host *h)
{
	return h->state >= HOST_COMPLETE;
}

/* Whether the host's state may change: neither it nor the capture has ended. */
static bool is_open(const struct capture_host *h)
{
	return !capture_host_has_ended(h) && capture_is_open(h->capture);
}

/* ---- messages to agents ---- */

struct host *capture_host_find_agent(const struct capture_host *h)
{
	return h->is_other ? NULL
			   : registry_find_connected(h->capture->captures->env.registry, h->name);
}

struct host *capture_host_find_own_agent(const struct capture_host *h)
{
	struct host *host = capture_host_find_agent(h);

	return host && host->instance == h->instance ? host : NULL;
}

struct host *capture_host_next_agent(const struct capture_host *h, size_t *at)
{
	struct host *host = registry_find_next(h->capture->captures->env.registry, at, h->name);

	return host && host->control && !h->is_other ? host : NULL;
}

struct host *capture_host_next_own_agent(const struct capture_host *h, size_t *at)
{
	struct host *host = capture_host_next_agent(h, at);

	return host && host->instance == h->instance ? host : NULL;
}

void capture_host_send(const struct capture_host *h, const struct buf *message)
{
	struct host *host = capture_host_find_own_agent(h);

	if (host)
		host_send(host, message);
}

/* ---- ends ---- */

/* The table's own string for this reason, or a copy if the table lacks it: a later version may have stored
 * it. */
static const char *keep_reason(struct capture *c, const char *word)
{
	const struct reason *r = reason_find(word);

	return r ? r->word : pool_text(&c->kept, word);
}

static const char *keep_detail(struct capture *c, const char *text)
{
	if (strcmp(c->last_detail, text))
		c->last_detail = pool_text(&c->kept, text);
	return c->last_detail;
}

void capture_host_set_reason(struct capture_host *h, const char *reason, const char *detail)
{
	char clean[HOST_DETAIL_BYTES];

	clean_sentence(clean, sizeof(clean), detail, strlen(detail));
	h->reason = keep_reason(h->capture, reason);
	h->detail = keep_detail(h->capture, clean);
}

static void log_result(const struct capture_host *h)
{
	log_warn("AGG-HOST-RESULT", "session=%s host=%s state=%s reason=%s detail=\"%s\"",
		 h->capture->session, h->name, h->state == HOST_FAILED ? "failed" : "partial",
		 h->reason, h->detail);
}

static void end_host(struct capture_host *h, enum host_state state)
{
	h->state = state;
	capture_host_drop_credit(h);
	if (state != HOST_COMPLETE)
		log_result(h);
	capture_host_ended(h);
}

/* With these reasons no Cancel is sent: the agent may still hold its file, for a retry. */
static bool may_hold_file(const char *reason)
{
	const struct reason *r = reason_find(reason);

	return r && r->flags & REASON_DELIVERABLE;
}

bool capture_host_may_hold_file(const struct capture_host *h)
{
	return !h->stored && may_hold_file(h->reason);
}

/* A host whose file is stored becomes partial: only its report is missing. */
void capture_host_failed(struct capture_host *h, const char *reason, const char *fmt, ...)
{
	char detail[2 * HOST_DETAIL_BYTES];
	struct buf message = BUF_INIT;
	va_list ap;

	if (!is_open(h))
		return;
	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	capture_host_set_reason(h, reason, detail);
	/* The agents of a cancelled capture are told when that is durable, not here. */
	if (!h->reported && !may_hold_file(reason) && !h->capture->cancelled) {
		message_cancel(&message, h->capture->session);
		capture_host_send(h, &message);
		buf_release(&message);
	}
	end_host(h, h->stored && !h->capture->cancelled ? HOST_PARTIAL : HOST_FAILED);
}

bool capture_any_host(const struct capture_host *h)
{
	(void)h;
	return true;
}

void capture_fail_hosts(struct capture *c, bool (*wants)(const struct capture_host *h),
			const char *reason, const char *detail)
{
	char clean[HOST_DETAIL_BYTES];
	const char *word = keep_reason(c, reason), *text;
	size_t failed = 0;

	if (!capture_is_open(c))
		return;
	clean_sentence(clean, sizeof(clean), detail, strlen(detail));
	text = keep_detail(c, clean);
	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (capture_host_has_ended(h) || !wants(h))
			continue;
		h->reason = word;
		h->detail = text;
		h->state = h->stored && !c->cancelled ? HOST_PARTIAL : HOST_FAILED;
		c->n_ended++;
		if (++failed <= LINES_MAX)
			log_result(h);
	}
	if (failed > LINES_MAX)
		log_warn("AGG-HOST-RESULT", "session=%s more_hosts=%zu reason=%s detail=\"%s\"",
			 c->session, failed - LINES_MAX, word, text);
	if (failed)
		capture_hosts_ended(c);
}

/* ---- links that break and come back ---- */

/* Calls fn for each open host of that agent; fn may end captures. */
static void for_each_open(struct captures *cs, const char *host, uint64_t instance,
			  void (*fn)(struct capture_host *h, const void *arg), const void *arg)
{
	struct capture *c, *next;

	for (c = TAILQ_FIRST(&cs->all); c; c = next) {
		struct capture_host *h = capture_find_host(c, host, instance);

		next = TAILQ_NEXT(c, entry);
		if (h && is_open(h))
			fn(h, arg);
	}
}

static void host_lost(struct capture_host *h, const void *arg)
{
	(void)arg;
	capture_host_failed(h, REASON_LOST, "the agent's connection ended");
}

void captures_host_lost(struct captures *cs, const char *host, uint64_t instance)
{
	for_each_open(cs, host, instance, host_lost, NULL);
}

void captures_host_refused(struct captures *cs, const char *host, const char *why)
{
	struct capture *c, *next;

	for (c = TAILQ_FIRST(&cs->all); c; c = next) {
		struct capture_host *h = capture_find_host_by_name(c, host);

		next = TAILQ_NEXT(c, entry);
		if (h && (h->instance || h->reconnect_by_ns))
			capture_host_failed(h, h->instance ? REASON_LOST : REASON_UNREACHABLE, "%s",
					    why);
	}
	capture_queue_schedule(cs); /* a capture may have waited for its next agent */
}

/* A host has one agent at a time: an earlier agent has ended, even if its link has not broken yet. */
static void fail_predecessors(struct captures *cs, const struct host *host)
{
	struct capture *c, *next;

	for (c = TAILQ_FIRST(&cs->all); c; c = next) {
		struct capture_host *h = capture_find_host_by_name(c, host->name);

		next = TAILQ_NEXT(c, entry);
		if (h && h->instance && h->instance != host->instance)
			capture_host_failed(h, REASON_LOST, "the agent was restarted");
	}
}

int64_t capture_host_replaced_within_ns(const struct capture_host *h)
{
	const struct host *host = registry_find(h->capture->captures->env.registry, h->name);

	return host && !h->is_other ? host_replaced_within_ns(host) : 0;
}

void capture_host_await_agent(struct capture_host *h, int64_t within_ns)
{
	struct capture *c = h->capture;
	int64_t by_ns = captures_now(c->captures) + within_ns;

	/* A recovered capture has a longer time for that. */
	if (h->reconnect_by_ns < by_ns)
		h->reconnect_by_ns = by_ns;
	if (h->reconnect_by_ns < c->next_reconnect_by_ns) {
		c->next_reconnect_by_ns = h->reconnect_by_ns;
		capture_wake(c);
	}
}

static int64_t begin_of(const struct capture_host *h)
{
	return h->t0_ns ? h->t0_ns : h->capture->t0_ns;
}

/* An agent does not tell at once that it records. */
static bool has_begun(const struct capture_host *h)
{
	return h->state > HOST_ARMED ||
	       (h->state == HOST_ARMED && captures_now(h->capture->captures) >= begin_of(h));
}

static void host_disconnected(struct capture_host *h, const void *arg)
{
	int64_t lost_ns = h->capture->captures->env.patience->lost_ns;
	int64_t replaced_ns = capture_host_replaced_within_ns(h);

	(void)arg;
	capture_host_drop_credit(h);
	h->is_left = replaced_ns > 0 && !has_begun(h) && !h->stored && !h->capture->snapshot;
	capture_host_await_agent(h, replaced_ns > lost_ns ? replaced_ns : lost_ns);
}

void captures_host_disconnected(struct captures *cs, const char *host, uint64_t instance)
{
	/* A stopping aggregator breaks the links itself: that says nothing of the hosts. */
	if (!cs->stopping)
		for_each_open(cs, host, instance, host_disconnected, NULL);
}

/* A host that missed the Arm message is armed late: rings reach back. One that is armed may have missed a Stop;
 * an agent ignores a second Stop. */
static void host_connected(struct capture_host *h, const void *arg)
{
	const struct host *host = arg;
	int64_t t0_ns = begin_of(h);
	struct buf message = BUF_INIT;

	if (h->state == HOST_ARMING && !host_find_held(host, h->capture->session) &&
	    capture_host_has_moved(h, host)) {
		capture_host_failed(h, REASON_UNREACHABLE, CAPTURE_NOT_CONNECTED);
		return;
	}
	h->reconnect_by_ns = 0;
	h->instance = host->instance;
	h->is_to_be_asked = false; /* it is asked now */
	if (h->capture->state < CAP_ARMING)
		return;
	if (host_find_held(host, h->capture->session)) {
		message_stop(&message, h->capture->session, t0_ns + h->capture->duration_ns,
			     capture_gather_by(h->capture, t0_ns + h->capture->duration_ns));
		goto out;
	}
	if (h->needs_recording || capture_retry_lost_file(h))
		return;
	if (h->state != HOST_ARMING) {
		capture_host_failed(h, REASON_LOST, "the agent came back without this capture");
		return;
	}
	message_arm(&message, h->capture, t0_ns);
out:
	capture_host_send(h, &message);
	buf_release(&message);
}

/* What was asked of an agent that had not begun to record is asked of its successor: what is left of the window. */
static void take_unbegun(struct captures *cs, const struct host *host)
{
	struct capture *c;

	TAILQ_FOREACH (c, &cs->all, entry) {
		struct capture_host *h = capture_find_host_by_name(c, host->name);

		if (!h || !h->is_left || !is_open(h) || capture_is_retry(c))
			continue;
		h->is_left = false;
		if (capture_host_has_moved(h, host))
			continue;
		if (h->instance == host->instance)
			continue; /* the same agent again, or the next one with the request in its spool */
		h->instance = host->instance;
		h->state = HOST_ARMING;
		if (c->state < CAP_ARMING)
			continue;
		c->arm_by_ns = capture_arm_by(c, c->t0_ns);
		capture_wake(c);
	}
}

/* A restarted agent may hold what its predecessor recorded. */
void captures_host_connected(struct captures *cs, struct host *host)
{
	for (size_t i = 0; i < host->n_held; i++) {
		struct capture *c = capture_find(cs, host->held[i].session);
		struct capture_host *h = c ? capture_find_host(c, host->name,
							       host->held[i].instance)
					   : NULL;

		if (h && is_open(h))
			h->instance = host->instance;
	}
	take_unbegun(cs, host);
	for_each_open(cs, host->name, host->instance, host_connected, host);
	fail_predecessors(cs, host);
	capture_queue_schedule(cs); /* a recovered capture may have waited for this host */
	captures_drop_held(cs, host);
}

static void host_held_changed(struct capture_host *h, const void *arg)
{
	if (!host_find_held(arg, h->capture->session))
		(void)capture_retry_lost_file(h);
}

void captures_host_held_changed(struct captures *cs, struct host *host)
{
	for_each_open(cs, host->name, host->instance, host_held_changed, host);
	captures_drop_held(cs, host);
}

/* ---- messages of agents ---- */

void capture_host_armed(struct capture_host *h, int64_t bound_ns, int64_t lead_ns)
{
	if (!is_open(h) || h->state != HOST_ARMING)
		return;
	h->state = HOST_ARMED;
	h->capture->last_armed_ns = captures_now(h->capture->captures);
	h->armed_bound_ns = bound_ns;
	if (h->capture->armed_at_ns)
		lead_add(&h->capture->captures->lead,
			 captures_now(h->capture->captures) - h->capture->armed_at_ns);
	if (lead_ns < 0 && h->capture->lead_ns) {
		h->armed_late_ns = -lead_ns;
		log_warn("AGG-LATE", "session=%s host=%s late_us=%" PRId64, h->capture->session,
			 h->name, -(lead_ns / NS_PER_US));
		json_array_append_new(h->capture->warnings,
				      json_sprintf("%s was armed %" PRId64 " ms after T0", h->name,
						   -(lead_ns / NS_PER_MS)));
	}
	capture_notify(h->capture);
}

void capture_host_progress(struct capture_host *h, enum host_state state, uint64_t bytes_total,
			   uint64_t bytes_done)
{
	if (!is_open(h) || state < h->state || state > HOST_UPLOADING)
		return;
	h->state = state;
	if (state == HOST_GATHERING || bytes_done != h->bytes_done)
		h->capture->progress_ns = captures_now(h->capture->captures);
	if (state == HOST_UPLOADING) {
		if (bytes_done != h->bytes_done)
			capture_host_renew_credit(h);
		if (!h->stored) {
			h->bytes = bytes_total;
			h->bytes_done = bytes_done;
		}
		capture_host_request_credit(h);
		capture_queue_schedule(h->capture->captures);
	}
	capture_notify(h->capture);
}

void capture_host_take_offer(struct capture_host *h, bool takes_grant, uint32_t crc32c)
{
	h->takes_grant = takes_grant;
	h->crc32c = crc32c;
}

bool capture_host_has_stored(const struct capture_host *h, uint64_t bytes, unsigned int n_files)
{
	if (h->was_found && h->n_files == 1 && n_files == 1)
		return h->bytes >= bytes && h->bytes - bytes <= NOTES_MAX_BYTES;
	return h->bytes == bytes;
}

void capture_host_stored(struct capture_host *h, uint64_t bytes, unsigned int n_files)
{
	if (!is_open(h))
		return;
	h->stored = true;
	h->n_files = n_files;
	h->bytes = h->bytes_done = bytes;
	capture_notify(h->capture);
}

/* Files are cut by the sizes of a report, and the store's are compared with them. */
static bool is_of_stored(const struct capture_host *h, const uint64_t *bytes, unsigned int n)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += bytes[i];
	return n == h->n_files && capture_host_has_stored(h, sum, n);
}

void capture_host_report_files(struct capture_host *h, const uint64_t *bytes,
			       const uint32_t *crc32c, unsigned int n)
{
	if (n && h->stored && !is_of_stored(h, bytes, n)) {
		log_warn("AGG-PEER",
			 "session=%s host=%s reason=\"its report is left out: it is not of the "
			 "files that are stored\"",
			 h->capture->session, h->name);
		n = 0;
	}
	if (n > h->n_reported)
		h->reported_files = pool_alloc(&h->capture->kept, n * sizeof(*h->reported_files));
	h->n_reported = n;
	for (unsigned int i = 0; i < n; i++)
		h->reported_files[i] = (struct reported_file){ bytes[i], crc32c[i] };
}

static void drop_observations(struct capture_host *h)
{
	h->capture->captures->observation_bytes -= h->observations_len;
	free(h->observations);
	h->observations = NULL;
	h->observations_len = 0;
}

void capture_host_report_observations(struct capture_host *h, const void *data, size_t len)
{
	struct captures *cs = h->capture->captures;

	drop_observations(h);
	if (!len || len > CAPTURES_OBSERVATION_BYTES - cs->observation_bytes)
		return;
	h->observations = xmalloc(len);
	memcpy(h->observations, data, len);
	h->observations_len = len;
	cs->observation_bytes += len;
}

void capture_drop_observations(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++)
		drop_observations(&c->hosts[i]);
}

void capture_host_upload_ended(struct capture_host *h, const char *error)
{
	free(h->upload_error);
	h->upload_error = error ? xstrdup(error) : NULL;
	capture_host_drop_credit(h);
}

void capture_host_put(struct capture_host *h, uint64_t bytes)
{
	const struct captures *cs = h->capture->captures;

	if (!cs->env.by_grants || h->stored || !is_open(h))
		return;
	capture_host_stored(h, bytes, 1);
	capture_host_upload_ended(h, NULL);
	if (cs->granter.used)
		cs->granter.used(cs->granter.arg);
}

/* "uncalibrated" comes first: without it, readers would trust the times of the file. */
static void set_uncalibrated(struct capture_host *h)
{
	char *detail = xasprintf("its clock was not measured against the aggregator's: the times "
				 "in its file are its own%s%s%s%s",
				 *h->reason ? "; " : "", h->reason, *h->reason ? ": " : "",
				 h->detail);

	capture_host_set_reason(h, REASON_UNCALIBRATED, detail);
	free(detail);
}

/* The agent reports no file, and all of it is stored: the reply to its upload was lost. Asked for the file once more, it
 * hears that and reports anew. */
static void handle_unheard(struct capture_host *h, const char *reason, const char *detail)
{
	if (may_hold_file(reason) && !h->was_unheard) {
		h->was_unheard = true;
		capture_host_drop_credit(h); /* the agent has used it */
		capture_host_request_credit(h);
		return;
	}
	capture_host_failed(h, REASON_TIMEOUT,
			    "its file is stored, and the agent reports none: %s%s%s", reason,
			    *detail ? ": " : "", detail);
}

void capture_host_result(struct capture_host *h, bool has_file, const char *reason,
			 const char *detail)
{
	if (!is_open(h))
		return;
	if (!has_file && h->stored) {
		handle_unheard(h, reason, detail);
		return;
	}
	h->reported = true;
	if (has_file && !h->stored) {
		capture_host_failed(h, REASON_UPLOAD,
				    "the agent reports its file as stored, but %s",
				    h->upload_error ? h->upload_error : "nothing has arrived");
		return;
	}
	if (!has_file && !*reason)
		reason = REASON_REFUSED;
	capture_host_set_reason(h, reason, detail);
	if (h->stored && !(h->clock && h->clock->calibrated))
		set_uncalibrated(h);
	end_host(h, !h->stored ? HOST_FAILED : *h->reason ? HOST_PARTIAL : HOST_COMPLETE);
}
