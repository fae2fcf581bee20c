/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's parts, in the order in which they are started.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/conf.h"
#include "agent/tracer/tracer.h"

struct agent {
	struct agent_conf conf;
	struct loop *loop; /* of whoever starts the agent */
	struct rpc *rpc;
	struct clock *clock;
	struct marks *marks;
	struct spool *spool;
	struct tracer **tracers; /* opened; NULL-terminated */
	struct captures *captures;
	struct control *control;
	struct profiler_service *profiler_service;
	int profiler_port; /* where it listens; 0 = not at all */
	struct local_service *local_service;
};

/* Starts every part; `conf` is finished and `loop` is set, the rest is zero. On failure nothing is left
 * running and a log line names the part. */
MUST_CHECK int agent_start(struct agent *a, struct err *e);

/* Says goodbye to the aggregator, stops every part. */
void agent_stop(struct agent *a);

#endif
