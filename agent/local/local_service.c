/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/local/local_service.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "agent/local/mark_process.h"
#include "agent/marks/marks.h"
#include "agent/tracer/tracer.h"
#include "base/clean_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/local_socket.h"
#include "proto/control_check.h"
#include "proto/limits.h"

/* Requests that wait for the aggregator's answer; the socket serves eight at once. */
#define ASKING_MAX 4

struct asking {
	struct local_service *service; /* NULL once that is freed */
	struct local_request *req;
	LIST_ENTRY(asking) entry;
};

struct local_service {
	struct local_env env;
	size_t n_asking;
	LIST_HEAD(, asking) asking;
	struct local_socket *socket;
};

static void answer(struct local_request *req, const Tutti__V1__LocalReply *reply)
{
	size_t len = tutti__v1__local_reply__get_packed_size(reply);
	uint8_t *bytes = xmalloc(len + 1);

	tutti__v1__local_reply__pack(reply, bytes);
	local_request_answer(req, bytes, len);
	free(bytes);
}

static void answer_text(struct local_request *req, bool ok, const char *session, const char *detail)
{
	Tutti__V1__LocalReply reply = TUTTI__V1__LOCAL_REPLY__INIT;
	char text[512];

	clean_sentence(text, sizeof(text), detail, strlen(detail));
	reply.ok = ok;
	reply.session = (char *)session;
	reply.detail = text;
	answer(req, &reply);
}

static void refuse(struct local_request *req, const char *detail)
{
	answer_text(req, false, "", detail);
}

/* ---- status ---- */

static json_t *clock_json(const struct clock *clock)
{
	struct clock_model m = clock_model(clock);

	if (!m.calibrated)
		return json_pack("{s:b}", "calibrated", 0);
	return json_pack("{s:b, s:I, s:I, s:I, s:I}", "calibrated", 1, "offset_ns",
			 (json_int_t)clock_model_wall_offset_at(&m, m.at_raw_ns), "bound_ns",
			 (json_int_t)m.bound_ns, "rtt_min_ns", (json_int_t)m.rtt_min_ns, "probes",
			 (json_int_t)m.probes);
}

static json_t *tracer_json(const struct tracer *t)
{
	struct tracer_state st = { 0 };
	char reason[sizeof(st.reason)];

	tracer_get_state(t, &st);
	clean_sentence(reason, sizeof(reason), st.reason, strlen(st.reason));
	return json_pack("{s:s, s:s, s:s, s:i}", "name", t->ops->name, "state",
			 tracer_health_name(st.health), "reason", reason, "errno", st.errno_value);
}

static json_t *tracers_json(struct tracer *const *t)
{
	json_t *list = json_array();

	for (; *t; t++)
		json_array_append_new(list, tracer_json(*t));
	return list;
}

static json_t *jobs_json(struct tracer *const *t)
{
	json_t *list = json_array();

	for (; *t; t++) {
		struct tracer_job jobs[LIMIT_JOBS];
		size_t n = (*t)->ops->jobs ? (*t)->ops->jobs(*t, jobs, LIMIT_JOBS) : 0;

		for (size_t i = 0; i < n && i < LIMIT_JOBS; i++)
			json_array_append_new(
				list,
				json_pack("{s:I, s:s, s:s, s:i, s:s, s:s}", "pid",
					  (json_int_t)jobs[i].pid, "command", jobs[i].command,
					  "framework", jobs[i].framework, "port", jobs[i].port,
					  "address", jobs[i].address, "state", jobs[i].state));
	}
	return list;
}

/* "" where peers quote what is no UTF-8. */
static json_t *link_error_json(const struct control *c)
{
	char text[256];
	const char *error = control_error(c);

	clean_sentence(text, sizeof(text), error, strlen(error));
	return json_string(text);
}

static void on_status(struct local_service *s, struct local_request *req)
{
	const struct local_env *env = &s->env;
	Tutti__V1__LocalReply reply = TUTTI__V1__LOCAL_REPLY__INIT;
	json_t *j = json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:s, s:o}", "host",
			      env->host, "version", TUTTI_VERSION, "aggregator", env->aggregator,
			      "connected", control_is_connected(env->control), "clock",
			      clock_json(env->clock), "tracers", tracers_json(env->tracers),
			      "captures", control_captures_json(env->control), "link_error",
			      link_error_json(env->control), "spool", env->spool ? env->spool : "",
			      "jobs", jobs_json(env->tracers));
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (text) {
		reply.ok = true;
		reply.json = text;
		answer(req, &reply);
	} else {
		refuse(req, "the status cannot be written as JSON");
	}
	free(text);
	json_decref(j);
}

/* ---- marks ---- */

static void on_mark(struct local_service *s, struct local_request *req,
		    const Tutti__V1__LocalMark *m)
{
	int64_t now = now_raw_ns();
	struct mark mark = {
		.raw_ns = m->raw_ns ? m->raw_ns : now,
		.text = m->text,
	};

	/* The clock began at boot: the oldest allowed time may be before that. */
	if (mark.raw_ns < 0 || mark.raw_ns > now + MARK_FUTURE_NS ||
	    mark.raw_ns < now - MARK_AGE_NS) {
		refuse(req, "raw_ns is not a recent time on CLOCK_MONOTONIC_RAW of this machine");
		return;
	}
	mark_process_set(&mark, local_request_pid(req), m->pid, m->tid);
	if (marks_add(s->env.marks, &mark))
		answer_text(req, true, "", "");
	else
		refuse(req, "the mark is lost: it came too late");
}

/* ---- start and stop ---- */

static void on_answer(void *arg, bool ok, const char *session, const char *detail)
{
	struct asking *a = arg;

	if (a->service) {
		a->service->n_asking--;
		LIST_REMOVE(a, entry);
	}
	answer_text(a->req, ok, session, detail);
	free(a);
}

static void ask(struct local_service *s, struct local_request *req,
		const struct control_question *q)
{
	struct asking *a;

	if (s->n_asking >= ASKING_MAX) {
		refuse(req, "other requests of this host wait for the aggregator: try again");
		return;
	}
	a = xmalloc(sizeof(*a));
	*a = (struct asking){ .service = s, .req = req };
	s->n_asking++;
	LIST_INSERT_HEAD(&s->asking, a, entry);
	control_ask(s->env.control, q, on_answer, a);
}

static void on_start(struct local_service *s, struct local_request *req,
		     const Tutti__V1__LocalStart *m)
{
	const struct control_question q = {
		.verb = "start",
		.session = "",
		.hosts = m->hosts,
		.duration_ns = m->duration_ns,
		.run = m->run,
		.token = m->token,
	};

	ask(s, req, &q);
}

static void on_stop(struct local_service *s, struct local_request *req,
		    const Tutti__V1__LocalStop *m)
{
	const struct control_question q = {
		.verb = "stop",
		.session = m->session,
		.hosts = "",
		.run = "",
		.token = m->token,
	};

	ask(s, req, &q);
}

static void on_request(struct local_request *req, const void *data, size_t len, void *arg)
{
	struct local_service *s = arg;
	Tutti__V1__LocalRequest *m;
	struct err e;

	if (control_unpack_local(&m, data, len, &e)) {
		log_warn("AGT-LOCAL", "reason=\"%s\"", e.msg);
		refuse(req, e.msg);
		return;
	}
	switch (m->kind_case) {
	case TUTTI__V1__LOCAL_REQUEST__KIND_STATUS:
		on_status(s, req);
		break;
	case TUTTI__V1__LOCAL_REQUEST__KIND_MARK:
		on_mark(s, req, m->mark);
		break;
	case TUTTI__V1__LOCAL_REQUEST__KIND_START:
		on_start(s, req, m->start);
		break;
	case TUTTI__V1__LOCAL_REQUEST__KIND_STOP:
		on_stop(s, req, m->stop);
		break;
	default:
		refuse(req,
		       "unknown kind of request: this agent is older than the caller, update it");
		break;
	}
	tutti__v1__local_request__free_unpacked(m, NULL);
}

int local_service_new(struct local_service **out, const struct local_env *env, struct err *e)
{
	struct local_service *s;
	int rc;

	*out = NULL;
	if (!env->url || !*env->url)
		return 0;
	s = xcalloc(1, sizeof(*s));
	s->env = *env;
	rc = local_socket_open(&s->socket, env->loop, env->url, on_request, s, e);
	if (rc) {
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void local_service_free(struct local_service *s)
{
	struct asking *a;

	if (!s)
		return;
	LIST_FOREACH(a, &s->asking, entry)
	{
		a->service = NULL;
	}
	local_socket_free(s->socket);
	free(s);
}
