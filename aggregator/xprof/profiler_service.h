/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow.ProfilerService for the whole cluster: what XProf's CAPTURE PROFILE and
 * jax.collect_profile dial. One address, one file per host in the answer. The methods' argument is
 * the struct profiler_service. Loop thread.
 *
 * A stock client hides every error from its user and tries again at once, so that whatever can be
 * explained is answered OK with an XSpace that holds the explanation. Calls that name the same
 * session while it runs, or soon after, share one capture.
 */
#ifndef AGGREGATOR_XPROF_PROFILER_SERVICE_H
#define AGGREGATOR_XPROF_PROFILER_SERVICE_H

struct aggregator;
struct profiler_service;
struct rpc_events;

#define PROFILER_PATH  "/tensorflow.ProfilerService/Profile"
#define TERMINATE_PATH "/tensorflow.ProfilerService/Terminate"
#define MONITOR_PATH   "/tensorflow.ProfilerService/Monitor"
extern const struct rpc_events profiler_profile_events, profiler_terminate_events,
	profiler_monitor_events;

struct profiler_service *profiler_service_new(struct aggregator *agg);
void profiler_service_free(struct profiler_service *ps); /* all calls are closed; NULL is fine */

#endif
