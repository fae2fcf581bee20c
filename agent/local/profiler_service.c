/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/local/profiler_service.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/capture.h"
#include "agent/clock/clock.h"
#include "agent/local/peer_owner.h"
#include "agent/local/profiler_answer.h"
#include "agent/tracer/tracer.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/address.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "proto/profiler_request.h"
#include "proto/profiler_series.h"
#include "proto/tensorflow/profiler_options.pb-c.h"
#include "proto/tensorflow/profiler_service.pb-c.h"

/* Time to arm the tracers: a window without a start of its own begins this long after the call. */
#define LEAD_NS (50 * NS_PER_MS)

#define UNIDENTIFIED_PER_ADDRESS_MAX 64 /* connections without an admitted call (net/rpc.h) */

/* Time to gather after the window: this, or twice the window if that is longer, as for a fleet's captures. */
#define GATHER_LEAST_NS (60 * NS_PER_S)

/* Time to send the answer before the call's deadline. */
#define RESERVE_NS NS_PER_S

struct profiler_service {
	struct profiler_service_env env;
	struct rpc_server *server;
	struct profile *profiles;
	struct profiler_series_list series; /* times: session clock */
	char *address;
	int port;
};

/* A Profile or GetSnapshot call under way. */
struct profile {
	struct profile *next;
	struct profiler_service *service;
	struct rpc_call *call;
	struct capture *capture; /* NULL before the request and after the answer */
	char *session; /* the caller's name for it; NULL before the request */
	bool emit_xspace;
};

/* ---- the answer ---- */

static int profile_send(struct profile *p, struct err *e)
{
	const struct profiler_answer answer = {
		.path = capture_path(p->capture),
		.file_len = capture_bytes(p->capture),
		.emit_xspace = p->emit_xspace,
		.empty_trace = !capture_events(p->capture),
	};
	struct rpc_part parts[PROFILER_ANSWER_PARTS];
	int rc = profiler_answer_parts(&answer, parts, e);

	if (!rc)
		rpc_send_parts(p->call, parts, PROFILER_ANSWER_PARTS);
	return rc;
}

static enum rpc_code rpc_code_of(int err_code)
{
	switch (err_code) {
	case ERR_INVALID:
		return RPC_INVALID_ARGUMENT;
	case ERR_LIMIT:
	case ERR_FULL:
		return RPC_RESOURCE_EXHAUSTED;
	case ERR_EXISTS:
		return RPC_ALREADY_EXISTS;
	case ERR_CANCELLED:
		return RPC_CANCELLED;
	default:
		return RPC_INTERNAL;
	}
}

static void profile_refuse(struct profile *p, const struct err *e)
{
	log_warn("AGT-PROFILE", "peer=%s reason=\"%s\"", rpc_peer(p->call), e->msg);
	rpc_finish(p->call, rpc_code_of(e->code), e->msg);
}

static void profile_release(struct profile *p)
{
	struct capture *c = p->capture;

	p->capture = NULL;
	if (c)
		capture_release(c);
}

static void on_capture_changed(struct capture *c, enum capture_state state, void *arg)
{
	struct profile *p = arg;
	struct err e;

	if (state == CAPTURE_READY) {
		if (profile_send(p, &e))
			profile_refuse(p, &e);
		else
			rpc_finish(p->call, RPC_OK, "");
	} else if (state == CAPTURE_FAILED) {
		profiler_series_lose(&p->service->series, capture_session(c));
		profile_refuse(p, capture_error(c));
	} else {
		return;
	}
	profile_release(p);
}

/* ---- the request ---- */

static int check_duration(const Tensorflow__ProfileRequest *m, struct err *e)
{
	uint64_t ms = profile_request_duration_ms(m);

	if (!ms)
		return err_set(e, ERR_INVALID, "opts.duration_ms is 0: set the duration to record");
	if (ms > (uint64_t)(LIMIT_DURATION_NS / NS_PER_MS))
		return err_set(e, ERR_INVALID, "opts.duration_ms is %" PRIu64 ", at most %" PRId64,
			       ms, (int64_t)(LIMIT_DURATION_NS / NS_PER_MS));
	return 0;
}

/* On the session clock. A start in the request is Unix time, on the caller's own clock. */
static int64_t window_start_ns(const struct clock_model *m, const Tensorflow__ProfileRequest *r)
{
	int64_t start = profile_request_start_ns(r, now_real_ns());
	int64_t raw = start ? clock_model_raw_of_real(m, start) : now_raw_ns() + LEAD_NS;

	return clock_model_session_of_raw(m, raw);
}

static int64_t give_up_ns(const struct clock_model *m, const struct rpc_call *call, int64_t t1_ns,
			  int64_t duration_ns)
{
	int64_t grace = 2 * duration_ns > GATHER_LEAST_NS ? 2 * duration_ns : GATHER_LEAST_NS;
	int64_t deadline = rpc_deadline_ns(call);
	int64_t limit = t1_ns + grace, until;

	if (deadline == INT64_MAX)
		return limit;
	until = clock_model_session_of_raw(m, now_raw_ns()) + deadline - now_mono_ns() - RESERVE_NS;
	if (until > limit)
		until = limit;
	return until > t1_ns ? until : t1_ns;
}

static int profile_start(struct profile *p, const Tensorflow__ProfileRequest *m, struct err *e)
{
	const struct profiler_service_env *env = &p->service->env;
	struct clock_model model = clock_model(env->clock);
	struct capture_request req = { .changed = on_capture_changed, .arg = p };
	char session[LIMIT_SESSION_NAME];
	struct buf options = BUF_INIT;
	int rc;

	/* The form of a session's id lets the next agent remove the folder if this one is killed. */
	name_make_session(now_real_ns(), session);
	req.session = session;
	req.t0_ns = window_start_ns(&model, m);
	req.duration_ns = (int64_t)profile_request_duration_ms(m) * NS_PER_MS;
	req.give_up_ns = give_up_ns(&model, p->call, req.t0_ns + req.duration_ns, req.duration_ns);
	if (m->opts) {
		buf_reserve(&options, tensorflow__profile_options__get_packed_size(m->opts));
		options.len = tensorflow__profile_options__pack(m->opts, options.data);
	}
	req.profile_options = options.data;
	req.profile_options_len = options.len;
	rc = capture_start(env->captures, &req, &p->capture, e);
	buf_release(&options);
	return rc;
}

static int profile_request(struct profile *p, const struct rpc_msg *msg, struct err *e)
{
	Tensorflow__ProfileRequest *m;
	const uint8_t *data;
	size_t len;
	int rc;

	data = rpc_msg_data(msg, &len);
	rc = profile_request_unpack(&m, data, len, e);
	if (rc)
		return rc;
	p->session = xstrdup(m->session_id);
	p->emit_xspace = m->emit_xspace;
	rc = check_duration(m, e);
	if (!rc)
		rc = profile_start(p, m, e);
	tensorflow__profile_request__free_unpacked(m, NULL);
	return rc;
}

/* ---- the caller ---- */

/* The same caller has the same address and the same certificate. Its port may differ: it may have connected
 * again. */
static bool is_same_caller(const struct rpc_call *a, const struct rpc_call *b)
{
	const char *a_peer = rpc_peer(a), *b_peer = rpc_peer(b);
	size_t a_len = (size_t)(strrchr(a_peer, ':') - a_peer);
	size_t b_len = (size_t)(strrchr(b_peer, ':') - b_peer);

	return a_len == b_len && !strncmp(a_peer, b_peer, a_len) &&
	       !strcmp(rpc_identity(a), rpc_identity(b));
}

/* What is_same_caller() compares, as a name. The caller of this function frees it. */
static char *caller_name(const struct rpc_call *call)
{
	const char *peer = rpc_peer(call);

	return xasprintf("%.*s %s", (int)(strrchr(peer, ':') - peer), peer, rpc_identity(call));
}

static int check_owner(const char *peer, int port, struct err *e)
{
	return peer_owner_check(peer, port, "/proc/net", e);
}

/* Whether the caller may call; if not, finishes the call. Samples show what all processes of the host do, so
 * other users may not call. A certificate by --ca admits a caller; --insecure admits callers of other hosts. */
static bool admit_caller(const struct profiler_service *s, struct rpc_call *call)
{
	const char *peer = rpc_peer(call);
	struct err e;

	if (*rpc_identity(call) || (s->env.insecure && !peer_is_loopback(peer)) ||
	    !s->env.check_owner(peer, s->port, &e))
		return true;
	log_warn("AGT-PROFILE", "peer=%s reason=\"%s\"", peer, e.msg);
	rpc_finish(call, RPC_PERMISSION_DENIED, e.msg);
	return false;
}

/* ---- Profile ---- */

static void profile_opened(struct rpc_call *call)
{
	struct profiler_service *s = rpc_arg(call);
	struct profile *p = xcalloc(1, sizeof(*p));

	p->service = s;
	p->call = call;
	p->next = s->profiles;
	s->profiles = p;
	rpc_set_arg(call, p);
}

static bool profile_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profile *p = rpc_arg(call);
	struct err e;

	/* A call has one request. */
	if (!p->session && !admit_caller(p->service, call))
		return true;
	if (!p->session && profile_request(p, msg, &e))
		profile_refuse(p, &e);
	return true;
}

static void profile_half_closed(struct rpc_call *call)
{
	struct profile *p = rpc_arg(call);

	if (!p->session)
		rpc_finish(call, RPC_INVALID_ARGUMENT, "the call ended without a request");
}

static void profile_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct profile *p = rpc_arg(call), **at = &p->service->profiles;

	(void)st;
	if (p->capture)
		profiler_series_lose(&p->service->series, capture_session(p->capture));
	profile_release(p); /* cancels the capture if the caller has disconnected */
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p->session);
	free(p);
}

/* ---- continuous profiling ---- */

/* Ignores the options of Start: they are for frameworks, and rings have none. */
static int snapshot_start(struct profile *p, struct err *e)
{
	const struct profiler_service_env *env = &p->service->env;
	struct clock_model model = clock_model(env->clock);
	struct capture_request req = { .changed = on_capture_changed, .arg = p };
	char *caller = caller_name(p->call), session[LIMIT_SESSION_NAME];
	struct profiler_series *s = profiler_series_find(&p->service->series, caller);
	int64_t t1_ns;
	int rc;

	free(caller);
	name_make_session(now_real_ns(), session);
	profiler_series_window(s, clock_model_session_of_raw(&model, now_raw_ns()), &req.t0_ns,
			       &t1_ns);
	req.session = session;
	req.duration_ns = t1_ns - req.t0_ns;
	req.give_up_ns = give_up_ns(&model, p->call, t1_ns, 0);
	p->emit_xspace = s && s->emit_xspace;
	rc = capture_start(env->captures, &req, &p->capture, e);
	if (!rc && s)
		profiler_series_add(s, session, req.t0_ns, t1_ns);
	return rc;
}

static int snapshot_request(struct profile *p, const struct rpc_msg *msg, struct err *e)
{
	Tensorflow__GetSnapshotRequest *m;
	const uint8_t *data;
	size_t len;
	int rc;

	data = rpc_msg_data(msg, &len);
	rc = snapshot_request_unpack(&m, data, len, e);
	if (rc)
		return rc;
	p->session = xstrdup(m->snapshot_session_id);
	tensorflow__get_snapshot_request__free_unpacked(m, NULL);
	return snapshot_start(p, e);
}

static bool snapshot_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profile *p = rpc_arg(call);
	struct err e;

	if (!p->session && !admit_caller(p->service, call))
		return true;
	if (!p->session && snapshot_request(p, msg, &e))
		profile_refuse(p, &e);
	return true;
}

static bool start_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profiler_service *s = rpc_arg(call);
	Tensorflow__ProfileRequest *m;
	struct err e;
	const uint8_t *data;
	size_t len;
	char *caller;

	data = rpc_msg_data(msg, &len);
	if (!admit_caller(s, call))
		return true;
	if (profile_request_unpack(&m, data, len, &e)) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, e.msg);
		return true;
	}
	caller = caller_name(call);
	profiler_series_begin(&s->series, caller, m->emit_xspace);
	free(caller);
	tensorflow__profile_request__free_unpacked(m, NULL);
	rpc_send(call, "", 0);
	rpc_finish(call, RPC_OK, "");
	return true;
}

static bool stop_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profiler_service *s = rpc_arg(call);
	char *caller;

	(void)msg;
	if (!admit_caller(s, call))
		return true;
	caller = caller_name(call);
	profiler_series_end(&s->series, caller);
	free(caller);
	rpc_send(call, "", 0);
	rpc_finish(call, RPC_OK, "");
	return true;
}

/* ---- Terminate ---- */

/* Ends the window of the caller's own sessions of that name now. An unknown name is no error and has no later
 * effect. */
static void terminate_session(struct profiler_service *s, const struct rpc_call *call,
			      const char *session)
{
	struct clock_model model = clock_model(s->env.clock);
	int64_t now = clock_model_session_of_raw(&model, now_raw_ns());
	struct profile *next;

	for (struct profile *p = s->profiles; p; p = next) {
		next = p->next;
		if (p->capture && !strcmp(p->session, session) && is_same_caller(p->call, call))
			capture_stop(p->capture, now, 0);
	}
}

static bool terminate_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	Tensorflow__TerminateRequest *m;
	struct err e;
	const uint8_t *data;
	size_t len;

	data = rpc_msg_data(msg, &len);
	if (!admit_caller(rpc_arg(call), call))
		return true;
	if (terminate_request_unpack(&m, data, len, &e)) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, e.msg);
		return true;
	}
	terminate_session(rpc_arg(call), call, m->session_id);
	tensorflow__terminate_request__free_unpacked(m, NULL);
	rpc_send(call, "", 0);
	rpc_finish(call, RPC_OK, "");
	return true;
}

/* ---- Monitor ---- */

static void add_clock(struct buf *text, const struct clock *clock)
{
	struct clock_model m = clock_model(clock);

	if (m.calibrated)
		buf_addf(text, "clock: within %" PRId64 " ns of the aggregator's\n", m.bound_ns);
	else
		buf_addf(text, "clock: this host's own, not compared with an aggregator's\n");
}

static void add_tracers(struct buf *text, struct tracer *const *t)
{
	for (; t && *t; t++) {
		struct tracer_state st = { 0 };

		tracer_get_state(*t, &st);
		buf_addf(text, "tracer %s: %s%s%s\n", (*t)->ops->name,
			 tracer_health_name(st.health), *st.reason ? ": " : "", st.reason);
	}
}

/* Counts only calls that have sent their request. */
static size_t count_captures(const struct profiler_service *s)
{
	size_t n = 0;

	for (const struct profile *p = s->profiles; p; p = p->next)
		n += p->capture != NULL;
	return n;
}

static bool monitor_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profiler_service *s = rpc_arg(call);
	Tensorflow__MonitorResponse m = TENSORFLOW__MONITOR_RESPONSE__INIT;
	struct buf text = BUF_INIT, reply = BUF_INIT;

	(void)msg;
	if (!admit_caller(s, call))
		return true;
	buf_addf(&text, "host %s, tutti-agent %s\n", s->env.host, TUTTI_VERSION);
	add_clock(&text, s->env.clock);
	add_tracers(&text, s->env.tracers);
	buf_addf(&text, "captures of this service: %zu\n", count_captures(s));
	m.data = (char *)buf_str(&text);
	buf_reserve(&reply, tensorflow__monitor_response__get_packed_size(&m));
	reply.len = tensorflow__monitor_response__pack(&m, reply.data);
	rpc_send(call, reply.data, reply.len);
	rpc_finish(call, RPC_OK, "");
	buf_release(&reply);
	buf_release(&text);
	return true;
}

/* ---- open and free ---- */

static const struct rpc_events profile_events = {
	.opened = profile_opened,
	.message = profile_message,
	.half_closed = profile_half_closed,
	.closed = profile_closed,
};
static const struct rpc_events snapshot_events = {
	.opened = profile_opened,
	.message = snapshot_message,
	.half_closed = profile_half_closed,
	.closed = profile_closed,
};
static const struct rpc_events start_events = { .message = start_message };
static const struct rpc_events stop_events = { .message = stop_message };
static const struct rpc_events terminate_events = { .message = terminate_message };
static const struct rpc_events monitor_events = { .message = monitor_message };

int profiler_service_new(struct profiler_service **out, const struct profiler_service_env *env,
			 struct err *e)
{
	struct profiler_service *s = xcalloc(1, sizeof(*s));
	const struct rpc_method methods[] = {
		{ PROFILER_PROFILE, &profile_events, s, LIMIT_PROFILE_BYTES },
		{ PROFILER_TERMINATE, &terminate_events, s, LIMIT_SMALL_BYTES },
		{ PROFILER_MONITOR, &monitor_events, s, LIMIT_SMALL_BYTES },
		{ PROFILER_START_CONTINUOUS, &start_events, s, LIMIT_PROFILE_BYTES },
		{ PROFILER_START_CONTINUOUS_OLD, &start_events, s, LIMIT_PROFILE_BYTES },
		{ PROFILER_GET_SNAPSHOT, &snapshot_events, s, LIMIT_SMALL_BYTES },
		{ PROFILER_GET_SNAPSHOT_OLD, &snapshot_events, s, LIMIT_SMALL_BYTES },
		{ PROFILER_STOP_CONTINUOUS, &stop_events, s, LIMIT_SMALL_BYTES },
	};
	const struct rpc_server_opts opts = {
		.address = env->listen,
		.tls = env->tls,
		.max_message_bytes = LIMIT_REQUEST_BYTES,
		.guarded = true,
		.unidentified_per_address = UNIDENTIFIED_PER_ADDRESS_MAX,
	};
	int port, rc;

	s->env = *env;
	profiler_series_init(&s->series);
	if (!s->env.check_owner)
		s->env.check_owner = check_owner;
	rc = address_check_listener(env->listen, env->tls != NULL, env->insecure, e);
	if (!rc)
		rc = rpc_server_new(&s->server, env->rpc, &opts, methods, ARRAY_SIZE(methods),
				    &port, e);
	if (rc) {
		free(s);
		return rc;
	}
	s->port = port;
	s->address = xasprintf("%.*s:%d", (int)(strrchr(env->listen, ':') - env->listen),
			       env->listen, port);
	*out = s;
	return 0;
}

void profiler_service_free(struct profiler_service *s)
{
	if (!s)
		return;
	rpc_server_free(s->server);
	profiler_series_free_all(&s->series);
	free(s->address);
	free(s);
}

const char *profiler_service_address(const struct profiler_service *s)
{
	return s->address;
}
