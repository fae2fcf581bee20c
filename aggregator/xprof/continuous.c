/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuous profiling, as stock clients have it: Start, a snapshot whenever one is wanted, Stop. The rings of
 * all hosts always record, so Start starts nothing: it begins a series, in which each window begins where the
 * last one ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/access/principal.h"
#include "aggregator/captures/capture.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/xprof/profiler_impl.h"
#include "base/log.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"

/* If a snapshot fails, the next window includes its window. */
void series_capture_ended(struct profiler_service *ps, const struct capture *c)
{
	if (capture_has_failed(c))
		profiler_series_lose(&ps->series, c->session);
}

/* ---- GetSnapshot ---- */

static int take_snapshot(const struct client_call *cc, const char *client_session, int64_t t0_ns,
			 int64_t t1_ns, struct capture **out, struct err *e)
{
	const struct profiler_env *env = &cc->ps->env;
	struct capture_request req = {
		.client_session = client_session,
		.snapshot = true,
		.duration_ns = t1_ns - t0_ns,
		.ending_at_ns = t1_ns,
		.commit_by_ns = client_call_commit_by(cc),
	};
	struct principal *caller;
	char origin[160];
	size_t connected;
	int rc;

	registry_count(env->registry, &connected);
	if (!connected)
		return err_set(e, ERR_NOT_FOUND, "no agent is connected to this aggregator");
	caller = profiler_caller(cc->ps, cc->call);
	snprintf(origin, sizeof(origin), "profiler-service %s", rpc_peer(cc->call));
	req.origin = origin;
	req.owner = caller ? caller->name : NULL;
	rc = capture_begin(env->captures, &req, out, e);
	principal_unref(caller);
	return rc;
}

static void handle_snapshot(struct client_call *cc, const char *client_session)
{
	struct profiler_service *ps = cc->ps;
	char *peer = profiler_peer_address(cc->call);
	struct profiler_series *s = profiler_series_find(&ps->series, peer);
	int64_t t0_ns, t1_ns;
	struct capture *c = NULL;
	struct err e;

	profiler_series_window(s, session_clock_now(ps->env.clock), &t0_ns, &t1_ns);
	cc->emit_xspace = s && s->emit_xspace;
	if (take_snapshot(cc, client_session, t0_ns, t1_ns, &c, &e)) {
		log_warn("AGG-PROFILE", "peer=%s reason=\"%s\"", rpc_peer(cc->call), e.msg);
		client_call_explain(cc, e.msg);
	} else {
		if (s)
			profiler_series_add(s, c->session, t0_ns, t1_ns);
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
	profiler_series_begin(&ps->series, peer, r->emit_xspace);
	free(peer);
	tensorflow__profile_request__free_unpacked(r, NULL);
	answer_empty(call);
	return true;
}

const struct rpc_events profiler_start_events = { .message = on_start };

/* A Stop without a Start is no error. */
static bool on_stop(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct profiler_service *ps = rpc_arg(call);
	char *peer;

	(void)msg;
	if (!profiler_check_token(ps, call))
		return true;
	peer = profiler_peer_address(call);
	profiler_series_end(&ps->series, peer);
	free(peer);
	answer_empty(call);
	return true;
}

const struct rpc_events profiler_stop_events = { .message = on_stop };
