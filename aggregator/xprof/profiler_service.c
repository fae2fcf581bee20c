/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/xprof/profiler_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "aggregator/access/principal.h"
#include "aggregator/captures/capture.h"
#include "aggregator/captures/options.h"
#include "aggregator/xprof/profiler_impl.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/time/session_clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"

#define MIN_GRACE_NS NS_PER_S
/* within this time after its end, a call with the same name gets the same capture */
#define REMEMBER_NS  (60 * NS_PER_S)
#define MAX_PROFILES 256

typedef Tensorflow__ProfileRequest profile_request;

/* A capture that clients requested, and the session name they chose. */
struct profile {
	/* both together identify it; a call without a session's name never shares */
	char *client_session, *peer;
	char *session; /* of the capture */
	int64_t ended_mono_ns; /* 0 = under way */
	TAILQ_ENTRY(profile) entry;
};

/* ---- profiles ---- */

static void profile_free(struct profiler_service *ps, struct profile *p)
{
	TAILQ_REMOVE(&ps->profiles, p, entry);
	ps->n_profiles--;
	free(p->client_session);
	free(p->peer);
	free(p->session);
	free(p);
}

static void forget_old_profiles(struct profiler_service *ps)
{
	struct profile *p, *next;

	for (p = TAILQ_FIRST(&ps->profiles); p; p = next) {
		next = TAILQ_NEXT(p, entry);
		if ((p->ended_mono_ns && now_mono_ns() - p->ended_mono_ns > REMEMBER_NS) ||
		    ps->n_profiles > MAX_PROFILES)
			profile_free(ps, p);
	}
}

/* Clients name sessions by their local second: two clients may choose the same name. */
static struct profile *profile_find(struct profiler_service *ps, const char *client_session,
				    const char *peer)
{
	struct profile *p;

	TAILQ_FOREACH (p, &ps->profiles, entry) {
		if (*client_session && !strcmp(p->client_session, client_session) &&
		    !strcmp(p->peer, peer))
			return p;
	}
	return NULL;
}

static struct profile *profile_add(struct profiler_service *ps, const char *client_session,
				   const char *peer, const char *session)
{
	struct profile *p = xcalloc(1, sizeof(*p));

	p->client_session = xstrdup(client_session);
	p->peer = xstrdup(peer);
	p->session = xstrdup(session);
	TAILQ_INSERT_TAIL(&ps->profiles, p, entry);
	ps->n_profiles++;
	return p;
}

/* ---- Profile ---- */

/* How long the capture may wait in the queue and still be answered before the client's deadline. */
static int64_t wait_ns(const struct client_call *cc, const struct capture_request *req)
{
	const struct profiler_env *env = &cc->ps->env;
	int64_t left_ns = req->commit_by_ns - session_clock_now(env->clock) - env->lead_ns -
			  req->duration_ns - MIN_GRACE_NS;

	if (!req->commit_by_ns)
		return 0;
	return left_ns > 0 ? left_ns : -1;
}

static int pack_options(const profile_request *r, int64_t duration_ns, struct capture_request *req,
			uint8_t **options, struct err *e)
{
	size_t len = r->opts ? tensorflow__profile_options__get_packed_size(r->opts) : 0;
	uint8_t *given = xmalloc(len);
	int rc;

	if (r->opts)
		tensorflow__profile_options__pack(r->opts, given);
	rc = options_adopt(given, len, duration_ns, options, &req->options_len, &req->settings, e);
	free(given);
	return rc;
}

static int begin_capture(struct client_call *cc, const profile_request *r, struct capture **out,
			 struct err *e)
{
	const struct profiler_env *env = &cc->ps->env;
	uint64_t duration_ms = profile_request_duration_ms(r);
	struct capture_request req = { .client_session = r->session_id };
	struct principal *caller;
	uint8_t *options = NULL;
	char origin[160];
	size_t connected;
	int rc;

	registry_count(env->registry, &connected);
	if (!connected)
		return err_set(e, ERR_NOT_FOUND, "no agent is connected to this aggregator");
	if (!duration_ms || duration_ms > LIMIT_DURATION_NS / NS_PER_MS)
		return err_set(e, ERR_INVALID, "duration of %" PRIu64 " ms: use 1 to %lld",
			       duration_ms, LIMIT_DURATION_NS / NS_PER_MS);
	caller = profiler_caller(cc->ps, cc->call);
	snprintf(origin, sizeof(origin), "profiler-service %s", rpc_peer(cc->call));
	req.origin = origin;
	req.owner = caller ? caller->name : NULL;
	req.duration_ns = (int64_t)duration_ms * NS_PER_MS;
	req.not_before_ns = profile_request_start_ns(r, session_clock_now(env->clock));
	req.commit_by_ns = client_call_commit_by(cc);
	req.wait_ns = wait_ns(cc, &req);
	rc = pack_options(r, req.duration_ns, &req, &options, e);
	req.options = options;
	if (!rc)
		rc = capture_begin(env->captures, &req, out, e);
	principal_unref(caller);
	free(options);
	json_decref(req.settings);
	return rc;
}

static void handle_profile(struct client_call *cc, const profile_request *r)
{
	struct profiler_service *ps = cc->ps;
	char *peer = profiler_peer_address(cc->call);
	struct profile *p;
	struct capture *c = NULL;
	struct err e = { 0 };

	forget_old_profiles(ps);
	p = profile_find(ps, r->session_id, peer);
	if (p)
		c = capture_find(ps->env.captures, p->session);
	if (p && !c)
		profile_free(ps, p);
	if (!c && !begin_capture(cc, r, &c, &e)) {
		p = profile_add(ps, r->session_id, peer, c->session);
		if (capture_has_ended(c))
			p->ended_mono_ns = now_mono_ns();
	}
	if (c) {
		client_call_await(cc, c);
	} else {
		log_warn("AGG-PROFILE", "peer=%s reason=\"%s\"", rpc_peer(cc->call), e.msg);
		client_call_explain(cc, e.msg);
	}
	free(peer);
}

static bool on_profile(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct client_call *cc = rpc_arg(call);
	profile_request *r;
	struct err e;
	size_t len;
	const uint8_t *data;

	if (cc->has_request || !profiler_check_token(cc->ps, call))
		return true;
	cc->has_request = true;
	data = rpc_msg_data(msg, &len);
	if (profile_request_unpack(&r, data, len, &e)) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, e.msg);
		return true;
	}
	cc->emit_xspace = r->emit_xspace;
	handle_profile(cc, r);
	tensorflow__profile_request__free_unpacked(r, NULL);
	return true;
}

const struct rpc_events profiler_profile_events = {
	.opened = client_call_opened,
	.message = on_profile,
	.closed = client_call_closed,
};

/* ---- Terminate ---- */

/* One call. It outlives `closed` until every stop is durable. */
struct terminate_call {
	struct profiler_service *ps;
	struct rpc_call *call; /* NULL once closed */
	bool has_request; /* received; a second one is ignored */
	size_t n_left; /* stops that are not durable yet, plus 1 while the request is read */
	struct err e;
};

static void on_terminate_opened(struct rpc_call *call)
{
	struct terminate_call *t = xcalloc(1, sizeof(*t));

	t->ps = rpc_arg(call);
	t->call = call;
	rpc_set_arg(call, t);
}

static void terminate_release(struct terminate_call *t)
{
	if (--t->n_left)
		return;
	if (!t->call) {
		free(t);
	} else if (t->e.code) {
		rpc_finish(t->call, RPC_INTERNAL, t->e.msg);
	} else {
		rpc_send(t->call, "", 0);
		rpc_finish(t->call, RPC_OK, "");
	}
}

static void on_stop_durable(void *arg, struct capture *c, const struct err *not_durable)
{
	struct terminate_call *t = arg;

	(void)c;
	if (not_durable)
		t->e = *not_durable;
	terminate_release(t);
}

static void stop_capture(struct terminate_call *t, const char *session)
{
	struct capture *c = capture_find(t->ps->env.captures, session);
	char origin[160];

	if (!c)
		return;
	t->n_left++;
	snprintf(origin, sizeof(origin), "profiler-service %s", rpc_peer(t->call));
	capture_stop_by(c, origin);
	capture_when_durable(c, on_stop_durable, t);
}

/* Stops captures by the name that the client chose, or by session id; only captures that this peer requested,
 * because an id can be guessed from the time, and other clients choose the same names. */
static void terminate(struct terminate_call *t, const char *session)
{
	char *peer = profiler_peer_address(t->call);
	const struct profile *p;

	t->n_left = 1;
	TAILQ_FOREACH (p, &t->ps->profiles, entry) {
		if (*session && !p->ended_mono_ns && !strcmp(p->peer, peer) &&
		    (!strcmp(p->client_session, session) || !strcmp(p->session, session)))
			stop_capture(t, p->session);
	}
	free(peer);
	terminate_release(t);
}

/*
 * Answers OK when the stop is durable. Like a stock server it also answers OK if no capture matches; but in a
 * stock server such a call spoils a later session of that name, and here it has no effect.
 */
static bool on_terminate(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct terminate_call *t = rpc_arg(call);
	Tensorflow__TerminateRequest *r;
	struct err e;
	const uint8_t *data;
	size_t len;

	if (t->has_request || !profiler_check_token(t->ps, call))
		return true;
	t->has_request = true;
	data = rpc_msg_data(msg, &len);
	if (terminate_request_unpack(&r, data, len, &e)) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, e.msg);
		return true;
	}
	terminate(t, r->session_id);
	tensorflow__terminate_request__free_unpacked(r, NULL);
	return true;
}

static void on_terminate_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct terminate_call *t = rpc_arg(call);

	(void)st;
	t->call = NULL;
	if (!t->n_left)
		free(t);
}

const struct rpc_events profiler_terminate_events = {
	.opened = on_terminate_opened,
	.message = on_terminate,
	.closed = on_terminate_closed,
};

/* ---- Monitor ---- */

static void write_host(struct buf *out, const struct host *h)
{
	buf_addf(out, "  %-32s %-9s", h->name, h->control ? "connected" : "lost");
	if (h->clock.calibrated)
		buf_addf(out, "  clock within %" PRId64 " us", h->clock.bound_ns / NS_PER_US);
	for (size_t i = 0; i < h->n_tracers; i++)
		buf_addf(out, "  %s:%s", h->tracers[i].name, h->tracers[i].state);
	buf_add_str(out, "\n");
}

static void write_summary(struct profiler_service *ps, struct buf *out)
{
	struct captures_count count = captures_count(ps->env.captures);
	size_t n, connected;
	struct host *const *hosts = registry_hosts(ps->env.registry, &n);

	registry_count(ps->env.registry, &connected);
	buf_addf(out,
		 "tutti-aggregator %s: %zu of %zu hosts connected, %zu captures under way, %zu "
		 "queued\n",
		 TUTTI_VERSION, connected, n, count.active, count.queued);
	for (size_t i = 0; i < n && i < 1000; i++)
		write_host(out, hosts[i]);
}

static bool on_monitor(struct rpc_call *call, const struct rpc_msg *msg)
{
	Tensorflow__MonitorResponse answer = TENSORFLOW__MONITOR_RESPONSE__INIT;
	struct buf text = BUF_INIT;
	size_t len;
	uint8_t *data;

	(void)msg;
	write_summary(rpc_arg(call), &text);
	answer.data = (char *)buf_str(&text);
	data = xmalloc(tensorflow__monitor_response__get_packed_size(&answer));
	len = tensorflow__monitor_response__pack(&answer, data);
	rpc_send(call, data, len);
	rpc_finish(call, RPC_OK, "");
	free(data);
	buf_release(&text);
	return true;
}

const struct rpc_events profiler_monitor_events = {
	.message = on_monitor,
};

/* ---- the ends of captures ---- */

static void on_capture(void *arg, struct capture *c)
{
	struct profiler_service *ps = arg;
	struct profile *p;

	if (!capture_has_ended(c))
		return;
	TAILQ_FOREACH (p, &ps->profiles, entry) {
		if (!strcmp(p->session, c->session))
			p->ended_mono_ns = now_mono_ns();
	}
	series_capture_ended(ps, c);
	client_calls_capture_ended(ps, c);
}

/* ---- life ---- */

struct profiler_service *profiler_service_new(const struct profiler_env *env)
{
	struct profiler_service *ps = xcalloc(1, sizeof(*ps));

	ps->env = *env;
	TAILQ_INIT(&ps->profiles);
	TAILQ_INIT(&ps->calls);
	profiler_series_init(&ps->series);
	captures_watch(env->captures, on_capture, ps);
	return ps;
}

void profiler_service_free(struct profiler_service *ps)
{
	if (!ps)
		return;
	while (!TAILQ_EMPTY(&ps->profiles))
		profile_free(ps, TAILQ_FIRST(&ps->profiles));
	profiler_series_free_all(&ps->series);
	client_calls_free(ps);
	free(ps);
}
