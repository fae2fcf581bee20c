/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of the tracer "profiler", and an open() that tests give a /proc of their own. */
#ifndef AGENT_TRACER_PROFILER_TRACER_PROFILER_H
#define AGENT_TRACER_PROFILER_TRACER_PROFILER_H

#include "agent/tracer/tracer.h"

struct profiler_conf {
	struct conf_list profiler; /* host:port of framework profilers */
	bool discover; /* find profilers among the listening sockets of local processes */
	bool continuous; /* let them record all the time, for snapshots */
	uint64_t profiler_limit_bytes; /* of a reply; 0 = what gRPC allows, 2 GB */
};

/* As tracer_profiler_ops.open(), which uses "/proc". `proc` outlives the tracer. */
MUST_CHECK int tracer_profiler_open(struct tracer **out, const struct tracer_env *env,
				    const char *proc, struct err *e);

#endif
