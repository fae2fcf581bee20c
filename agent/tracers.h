/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of this build's tracers, for tracers.c and for tests. */
#ifndef AGENT_TRACERS_H
#define AGENT_TRACERS_H

#include "agent/tracer/tracer.h"

extern const struct tracer_ops tracer_cpu_ops;
extern const struct tracer_ops tracer_metrics_ops;
extern const struct tracer_ops tracer_marks_ops;
extern const struct tracer_ops tracer_profiler_ops;

#endif
