/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs of this host for people: the processes with a framework that listen at some port, and the profiler
 * servers that the configuration names. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_JOBS_H
#define AGENT_TRACER_PROFILER_JOBS_H

#include <stddef.h>

#include "agent/tracer/profiler/tracer_profiler.h"
#include "agent/tracer/tracer.h"

struct discover;

/* Returns how many there are, and sets the first `max`: the configured ones first, then by pid. */
size_t profiler_list_jobs(const struct profiler_conf *conf, const struct discover *d,
			  struct tracer_job *out, size_t max);

#endif
