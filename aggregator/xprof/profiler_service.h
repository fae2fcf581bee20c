/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow.ProfilerService for the whole fleet: XProf's CAPTURE PROFILE and jax.collect_profile call it.
 * One address, one file per host in the answer. The methods' argument is the struct profiler_service.
 * Loop thread.
 *
 * A stock client shows no error to its user and calls again at once. So a failure with a known cause is
 * answered OK, with an XSpace that has the cause in its errors. Calls that name the same session while it runs,
 * or up to a minute later, share one capture.
 *
 * GetSnapshot is a snapshot of all hosts. Between StartContinuousProfiling and StopContinuousProfiling, the
 * windows of one client (a peer address) follow one another; the first one is the 30 s before the call, and
 * none is longer than 60 s.
 */
#ifndef AGGREGATOR_XPROF_PROFILER_SERVICE_H
#define AGGREGATOR_XPROF_PROFILER_SERVICE_H

#include <stdint.h>

struct captures;
struct jobs;
struct loop;
struct profiler_service;
struct registry;
struct rpc_events;
struct session_clock;
struct session_store;

/* The events of the methods whose paths are in proto/profiler_request.h. */
extern const struct rpc_events profiler_profile_events, profiler_terminate_events,
	profiler_monitor_events, profiler_start_events, profiler_snapshot_events,
	profiler_stop_events;

struct profiler_env {
	struct loop *loop;
	struct jobs *jobs;
	const struct session_clock *clock;
	const struct session_store *store;
	struct registry *registry;
	struct captures *captures;
	int64_t lead_ns; /* the least time from a request to T0 */
	struct access *
		access; /* all but Monitor need a token, if there are any: "authorization: Bearer" */
};

struct profiler_service *profiler_service_new(const struct profiler_env *env);
void profiler_service_free(struct profiler_service *ps); /* all calls are closed; NULL is fine */

#endif
