/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler tracer with a /proc of the test's own. */
#ifndef AGENT_TRACER_PROFILER_TRACER_PROFILER_H
#define AGENT_TRACER_PROFILER_TRACER_PROFILER_H

#include "agent/tracer/tracer.h"

/* As tracer_profiler_ops.open(), which says "/proc". `proc` outlives the tracer. */
MUST_CHECK int tracer_profiler_open(struct tracer **out, const struct tracer_env *env,
				    const char *proc, struct err *e);

#endif
