/* SPDX-License-Identifier: Apache-2.0 */
/* What the control link and the uploads need of the agent. */
#ifndef AGENT_LINK_ENV_H
#define AGENT_LINK_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct captures;
struct clock;
struct conf_list;
struct enrol_env;
struct local_pods;
struct loop;
struct marks;
struct rpc;
struct rpc_tls;
struct spool;
struct tracer;

/* All borrowed, and there until control_free(). */
struct link_env {
	struct loop *loop;
	struct rpc *rpc;
	struct clock *clock;
	struct marks *marks; /* for the training step this host is at */
	struct local_pods *pods; /* gets what the aggregator tells of pods; NULL = nothing does */
	struct spool *spool;
	struct captures *captures;
	struct tracer *const *tracers; /* opened; NULL-terminated */
	const char *host; /* this host's name in sessions */
	const struct conf_list *labels; /* each is KEY=VALUE */
	const char *profiler_address; /* of this agent's own ProfilerService; "" = none */
	const char *
		aggregator; /* HOST:PORT of its gRPC; in the agent's own environment also several, with commas */
	bool several; /* whether there are several: set by the control link */
	const struct rpc_tls *tls; /* towards the aggregator; NULL = plaintext */
	/* how this host gets its certificate; NULL = by its settings. For control_new(), which sets `tls` by it */
	const struct enrol_env *enrol;
	const char *
		store_ca; /* authorities that sign the store's certificate, for grants; NULL = the system's */
	int64_t reconnect_max_ns; /* longest pause between two attempts to connect */
	int64_t back_within_ns; /* after control_leave() another agent follows within this time; 0 = none does */
};

#endif
