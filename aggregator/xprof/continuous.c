/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuous profiling, as stock clients have it: Start, a snapshot whenever one is wanted, Stop. The rings of all hosts
 * always record, so Start starts nothing: it begins a series, in which each window begins where the last one ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/xprof/profiler_impl.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"

#define FIRST_NS (30 * NS_PER_S) /* the first window of a series, and one outside of any */
#define REACH_NS \
	(60 * NS_PER_S) /* no window is longer: so much do rings keep unless told otherwise */

/* Two calls of one client within this time are one. */
#define SAME_INSTANT_NS (50 * NS_PER_MS)

#define MAX_SERIES 256

/* Between Start and Stop of one client. */
struct series {
	char *peer; /* identifies it */
	bool emit_xspace; /* as Start asked */
	int64_t end_ns; /* session clock: where the next window begins; 0 = there was no window yet */
	char *session; /* of the last window; NULL = none */
	int64_t begin_ns; /* of the last window */
	TAILQ_ENTRY(series) entry;
};

/* ---- series ---- */

static void series_free(struct profiler_service *ps, struct series *s)
{
	TAILQ_REMOVE(&ps->series, s, entry);
	ps->n_series--;
	free(s->peer);
	free(s->session);
	free(s);
}

void series_free_all(struct profiler_service *ps)
{
	while (!TAILQ_EMPTY(&ps->series))
		series_free(ps, TAILQ_FIRST(&ps->series));
}

static struct series *series_find(struct profiler_service *ps, const char *peer)
{
	struct series *s;

	TAILQ_FOREACH (s, &ps->series, entry) {
		if (!strcmp(s->peer, peer))
			return s;
	}
	return NULL;
}

static void series_begin(struct profiler_service *ps, const char *peer, bool emit_xspace)
{
	struct series *s = series_find(ps, peer);

	if (s)
		series_free(ps, s);
	if (ps->n_series == MAX_SERIES)
		series_free(ps, TAILQ_FIRST(&ps->series));
	s = xcalloc(1, sizeof(*s));
	s->peer = xstrdup(peer);
	s->emit_xspace = emit_xspace;
	TAILQ_INSERT_TAIL(&ps->series, s, entry);
	ps->n_series++;
}

static int64_t series_next_begin(const struct series *s, int64_t now_ns)
{
	if (!s || !s->end_ns)
		return now_ns - FIRST_NS;
	return s->end_ns < now_ns - REACH_NS ? now_ns - REACH_NS : s->end_ns;
}

static void series_add(struct series *s, const struct capture *c)
{
	free(s->session);
	s->session = xstrdup(c->session);
	s->begin_ns = c->t0_ns;
	s->end_ns = c->t0_ns + c->duration_ns;
}

/* A window that was lost is part of the next one. */
void series_capture_ended(struct profiler_service *ps, const struct capture *c)
{
	struct series *s;

	if (!capture_has_failed(c))
		return;
	TAILQ_FOREACH (s, &ps->series, entry) {
		if (s->session && !strcmp(s->session, c->session))
			s->end_ns = s->begin_ns;
	}
}

/* ---- GetSnapshot ---- */

/* The last window, if this call is one with that. */
static struct capture *find_same(const struct client_call *cc, const struct series *s,
				 int64_t now_ns)
{
	if (!s || !s->session || s->end_ns + SAME_INSTANT_NS < now_ns)
		return NULL;
	return capture_find(cc->ps->env.captures, s->session);
}

static int take_snapshot(const struct client_call *cc, const char *client_session, int64_t begin_ns,
			 int64_t end_ns, struct capture **out, struct err *e)
{
	const struct profiler_env *env = &cc->ps->env;
	struct capture_request req = {
		.client_session = client_session,
		.snapshot = true,
		.duration_ns = end_ns - begin_ns,
		.ending_at_ns = end_ns,
		.commit_by_ns = client_call_commit_by(cc),
	};
	char origin[160];
	size_t connected;

	registry_count(env->registry, &connected);
	if (!connected)
		return err_set(e, ERR_NOT_FOUND, "no agent is connected to this aggregator");
	snprintf(origin, sizeof(origin), "profiler-service %s", rpc_peer(cc->call));
	req.origin = origin;
	return capture_begin(env->captures, &req, out, e);
}

static void handle_snapshot(struct client_call *cc, const char *client_session)
{
	struct profiler_service *ps = cc->ps;
	char *peer = profiler_peer_address(cc->call);
	struct series *s = series_find(ps, peer);
	int64_t now_ns = session_clock_now(ps->env.clock);
	struct capture *c = find_same(cc, s, now_ns);
	struct err e;
	int rc = 0;

	cc->emit_xspace = s && s->emit_xspace;
	if (!c) {
		rc = take_snapshot(cc, client_session, series_next_begin(s, now_ns), now_ns, &c,
				   &e);
		if (!rc && s)
			series_add(s, c);
	}
	if (rc) {
		log_warn("AGG-PROFILE", "peer=%s reason=\"%s\"", rpc_peer(cc->call), e.msg);
		client_call_explain(cc, e.msg);
	} else {
		client_call_await(cc, c);
	}
	free(peer);
}

static bool on_snapshot(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct client_call *cc = rpc_arg(call);
	Tensorflow__GetSnapshotRequest *r;
	struct err e;
	const uint8_t *data;
	size_t len;

	if (cc->has_request || !profiler_check_token(cc->ps, call))
		return true;
	cc->has_request = true;
	data = rpc_msg_data(msg, &len);
	if (snapshot_request_unpack(&r, data, len, &e)) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, e.msg);
		return true;
	}
	handle_snapshot(cc, r->snapshot_session_id);
	tensorflow__get_snapshot_request__free_unpacked(r, NULL);
	return true;
}

const struct rpc_events profiler_snapshot_events = {
	.opened = client_call_opened,
	.message = on_snapshot,
	.closed = client_call_closed,
};

/* ---- Start and Stop ---- */

static void answer_empty(struct rpc_call *call)
{
	rpc_send(call, "", 0);
	rpc_finish(call, RPC_OK, "");
}

/* A second Start begins a new series: a client that has crashed never sent its Stop. */
static bool on_start(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profiler_service *ps = rpc_arg(call);
	Tensorflow__ProfileRequest *r;
	struct err e;
	const uint8_t *data;
	size_t len;
	char *peer;

	if (!profiler_check_token(ps, call))
		return true;
	data = rpc_msg_data(msg, &len);
	if (profile_request_unpack(&r, data, len, &e)) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, e.msg);
		return true;
	}
	peer = profiler_peer_address(call);
	series_begin(ps, peer, r->emit_xspace);
	free(peer);
	tensorflow__profile_request__free_unpacked(r, NULL);
	answer_empty(call);
	return true;
}

const struct rpc_events profiler_start_events = { .message = on_start };

/* Without a Start it is fine, too: the rings record all the same. */
static bool on_stop(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profiler_service *ps = rpc_arg(call);
	struct series *s;
	char *peer;

	(void)msg;
	if (!profiler_check_token(ps, call))
		return true;
	peer = profiler_peer_address(call);
	s = series_find(ps, peer);
	if (s)
		series_free(ps, s);
	free(peer);
	answer_empty(call);
	return true;
}

const struct rpc_events profiler_stop_events = { .message = on_stop };
