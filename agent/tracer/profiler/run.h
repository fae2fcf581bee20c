/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One capture of the tracer "profiler": a call for each process, and what comes of them. Shared only by run.c and
 * tracer_profiler.c (the tracer itself). Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_RUN_H
#define AGENT_TRACER_PROFILER_RUN_H

#include "agent/tracer/profiler/tracer_profiler.h"
#include "base/loop.h"
#include "base/now.h"

#define PROFILER_STOP_NS \
	(150 * NS_PER_MS) /* time for a continuous session to end before the window */

struct profiler_run;

struct tracer_profiler {
	struct tracer base;
	struct tracer_env env;
	const struct profiler_conf *conf;
	struct discover *discover;
	struct sweep *sweep;
	struct lane *lane;
	struct continuous *continuous; /* NULL = not wanted */
	int live; /* calls with callbacks under way, freed calls included */
};

/* Calls the processes that are known, and those that a scan finds. Of a window that is over it takes what frameworks
 * record all the time. Sets run->arg; the run ends with profiler_run_free() or, done, by itself. */
void profiler_run_start(struct tracer_profiler *t, struct tracer_run *run);

/* The window ends earlier, at the run's t1_raw_ns. */
void profiler_run_stop(struct profiler_run *pr);

/* Ends the run when all traces have come. */
void profiler_run_gather(struct profiler_run *pr);

/* Ends the run now, with the traces that are complete. */
void profiler_run_finish(struct profiler_run *pr);

void profiler_run_free(struct profiler_run *pr);

#endif
