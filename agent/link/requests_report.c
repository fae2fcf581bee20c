/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/link/messages.h"
#include "agent/link/requests_impl.h"
#include "base/clean_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/reasons.h"

#define GROWTH_PERIOD_NS NS_PER_S

static const char *state_word(enum request_state state)
{
	static const char *const words[] = {
		[REQUEST_ARMED] = "armed",	   [REQUEST_RUNNING] = "running",
		[REQUEST_GATHERING] = "gathering", [REQUEST_READY] = "uploading",
		[REQUEST_STORED] = "stored",	   [REQUEST_FAILED] = "failed",
	};

	return words[state];
}

static void send_message(const struct requests *rs, const Tutti__V1__AgentMessage *m)
{
	rs->link.send(rs->link.arg, m);
}

void request_report_armed(const struct request *rq, const struct clock_model *m, int64_t t0_ns)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Armed armed = TUTTI__V1__ARMED__INIT;

	armed.session = rq->session;
	armed.bound_ns = m->calibrated
				 ? clock_model_bound_at(m, clock_model_raw_of_session(m, t0_ns))
				 : 0;
	armed.lead_ns = t0_ns - clock_model_session_of_raw(m, now_raw_ns());
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ARMED;
	msg.armed = &armed;
	send_message(rq->requests, &msg);
}

void requests_report_refused(const struct requests *rs, const char *session, const char *reason,
			     const char *detail)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Refused refused = TUTTI__V1__REFUSED__INIT;
	char text[sizeof(((struct err *)0)->msg)];

	clean_sentence(text, sizeof(text), detail, strlen(detail));
	log_warn("AGT-CAPTURE", "session=%s state=refused reason=%s detail=\"%s\"", session, reason,
		 text);
	refused.session = (char *)session;
	refused.reason = (char *)reason;
	refused.detail = text;
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_REFUSED;
	msg.refused = &refused;
	send_message(rs, &msg);
}

void request_report_progress(const struct request *rq)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Progress progress = TUTTI__V1__PROGRESS__INIT;

	progress.session = rq->session;
	progress.state = (char *)state_word(rq->state);
	if (rq->state == REQUEST_READY) {
		progress.bytes_total = rq->bytes;
		progress.bytes_done = rq->bytes_done;
		progress.takes_grant = rq->files_summed && rq->n_files == 1;
		progress.crc32c = progress.takes_grant ? rq->files[0].crc32c : 0;
	}
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS;
	msg.progress = &progress;
	send_message(rq->requests, &msg);
}

static void on_growth_due(void *arg)
{
	struct request *rq = arg;
	uint64_t bytes = capture_bytes_made(rq->capture);

	if (bytes != rq->bytes_made)
		request_report_progress(rq);
	rq->bytes_made = bytes;
	loop_timer_in(rq->requests->env->loop, &rq->telling, GROWTH_PERIOD_NS, on_growth_due, rq);
}

void request_report_growth(struct request *rq)
{
	loop_timer_in(rq->requests->env->loop, &rq->telling, GROWTH_PERIOD_NS, on_growth_due, rq);
}

/* ---- results ---- */

static int check_result(const uint8_t *data, size_t len, struct err *e)
{
	Tutti__V1__AgentMessage *m;
	int rc = control_unpack_from_agent(&m, data, len, e);

	if (rc)
		return rc;
	if (m->kind_case != TUTTI__V1__AGENT_MESSAGE__KIND_RESULT)
		rc = err_set(e, ERR_INVALID, "the stored message is not a result");
	else if (m->result->steps)
		rc = control_check_steps_seen(m->result->steps, e);
	tutti__v1__agent_message__free_unpacked(m, NULL);
	return rc;
}

static void pack_result(struct request *rq, const Tutti__V1__AgentMessage *m)
{
	free(rq->result);
	rq->result_len = tutti__v1__agent_message__get_packed_size(m);
	rq->result = xmalloc(rq->result_len + 1);
	tutti__v1__agent_message__pack(m, rq->result);
}

/* A result that says only whether there is a file. */
static void reduce_result(struct request *rq, const char *why)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__HostResult result = TUTTI__V1__HOST_RESULT__INIT;
	char text[sizeof(((struct err *)0)->msg)];

	log_warn("AGT-CAPTURE", "session=%s reason=\"its report is left out: %s\"", rq->session,
		 why);
	snprintf(text, sizeof(text), "the agent's report is left out: %.200s", why);
	result.session = rq->session;
	result.has_file = rq->path != NULL;
	result.bytes = rq->bytes;
	result.reason = (char *)(result.has_file ? REASON_TRACER_FAILED : REASON_ASSEMBLE);
	result.detail = text;
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	msg.result = &result;
	pack_result(rq, &msg);
}

void request_set_result(struct request *rq, const void *data, size_t len)
{
	struct err e;

	free(rq->result);
	rq->result_len = len;
	rq->result = xmalloc(len + 1);
	memcpy(rq->result, len ? data : "", len);
	if (check_result(rq->result, len, &e))
		reduce_result(rq, e.msg);
}

static void keep_result(void *arg, const Tutti__V1__AgentMessage *m)
{
	struct request *rq = arg;
	struct err e;

	pack_result(rq, m);
	if (check_result(rq->result, rq->result_len, &e))
		reduce_result(rq, e.msg);
}

void request_make_result(struct request *rq, const char *reason, const char *detail)
{
	char text[sizeof(((struct err *)0)->msg)] = "";
	struct message_result r = {
		.capture = rq->capture,
		.has_file = !reason,
		.tracers_named = rq->tracers_named,
		.reason = reason,
		.detail = text,
	};

	if (detail)
		clean_sentence(text, sizeof(text), detail, strlen(detail));
	message_result(&r, keep_result, rq);
}

static void send_without_file(const struct request *rq, Tutti__V1__AgentMessage *m,
			      const char *reason, const char *detail)
{
	Tutti__V1__HostResult result = *m->result;
	Tutti__V1__AgentMessage msg = *m;
	char text[sizeof(((struct err *)0)->msg)];

	clean_sentence(text, sizeof(text), detail, strlen(detail));
	result.has_file = false;
	result.events = result.bytes = 0;
	result.n_files = result.n_crc32c = 0;
	result.observations.len = 0;
	result.reason = (char *)reason;
	result.detail = text;
	msg.result = &result;
	send_message(rq->requests, &msg);
}

void request_report_result(const struct request *rq, const char *reason, const char *detail)
{
	ProtobufCMessage *packed;
	Tutti__V1__AgentMessage *m;

	if (message_unpack(&packed, &tutti__v1__agent_message__descriptor, LIMIT_CONTROL_BYTES,
			   LIMIT_CONTROL_FIELDS, rq->result, rq->result_len, NULL))
		return; /* not reached: request_set_result() has checked it */
	m = (Tutti__V1__AgentMessage *)packed;
	m->result->put = rq->is_put;
	if (reason)
		send_without_file(rq, m, reason, detail);
	else
		send_message(rq->requests, m);
	tutti__v1__agent_message__free_unpacked(m, NULL);
}

/* ---- lists ---- */

static int64_t lease_left_ns(const struct request *rq)
{
	int64_t left_ns = rq->lease_end_mono_ns - now_mono_ns();

	return left_ns > 0 ? left_ns : 0;
}

Tutti__V1__Held **requests_held(const struct requests *rs, size_t *n)
{
	Tutti__V1__Held **list = NULL;

	*n = 0;
	for (const struct request *rq = rs->head; rq; rq = rq->next) {
		Tutti__V1__Held *held = xmalloc(sizeof(*held));

		tutti__v1__held__init(held);
		held->session = rq->session;
		held->state = (char *)state_word(rq->state);
		held->instance = rq->instance;
		held->bytes = rq->bytes;
		held->lease_ns = lease_left_ns(rq);
		list = xrealloc(list, (*n + 1) * sizeof(*list));
		list[(*n)++] = held;
	}
	return list;
}

void requests_held_free(Tutti__V1__Held **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

bool requests_are_held(const struct requests *rs)
{
	return rs->head != NULL;
}

json_t *requests_json(const struct requests *rs)
{
	json_t *list = json_array();

	for (const struct request *rq = rs->head; rq; rq = rq->next)
		json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "session",
						      rq->session, "state", state_word(rq->state),
						      "bytes", (json_int_t)rq->bytes, "bytes_done",
						      (json_int_t)rq->bytes_done));
	return list;
}

void requests_report_again(const struct requests *rs)
{
	const struct clock_model m = clock_model(rs->env->clock);

	for (const struct request *rq = rs->head; rq; rq = rq->next) {
		if (rq->state >= REQUEST_STORED)
			request_report_result(rq, NULL, NULL);
		else if (rq->state > REQUEST_ARMED)
			request_report_progress(rq);
		else if (rq->capture)
			request_report_armed(rq, &m, capture_t0_ns(rq->capture));
	}
}
