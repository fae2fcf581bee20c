/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes the files of calls that were given up. An older server does not notice that: it records to the end
 * of its window and then writes its file. So a worker looks for the file several times within 40 s, and
 * removes it with its folders. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_SWEEP_H
#define AGENT_TRACER_PROFILER_SWEEP_H

#include <stdint.h>

struct loop;
struct lane;
struct sweep;

struct sweep *sweep_new(struct loop *loop, struct lane *lane);

/* `pid`, repository and session as in store.h; copied. */
void sweep_add(struct sweep *s, int64_t pid, const char *repository, const char *session);

/* Looks once more for each, at once. NULL is fine. */
void sweep_free(struct sweep *s);

#endif
