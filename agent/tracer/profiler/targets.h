/* SPDX-License-Identifier: Apache-2.0 */
/* Profiler servers that need no discovery: those of the configuration and those of pods. Loop thread. */
#ifndef AGENT_TRACER_PROFILER_TARGETS_H
#define AGENT_TRACER_PROFILER_TARGETS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct local_pods;

/* ERR_INVALID for an address that is none, or that of this agent's own listener `listen`: it would call itself without end. */
MUST_CHECK int profiler_check_target(const char *listen, const char *address, struct err *e);

/* The server of a pod with the annotation tutti.dev/profiler-port. */
struct pod_profiler {
	char address[80]; /* "10.0.3.7:9999": in the pod's network */
	int port;
	int64_t pid; /* of the process that listens there; 0 = not known */
	char comm[32]; /* "pod train-0" */
};

/* Those of this host's pods, without the ones that opted out. Returns how many; the caller frees `*out`. */
size_t profiler_list_pods(const struct local_pods *pods, struct pod_profiler **out);

#endif
