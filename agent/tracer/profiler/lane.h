/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs on workers that touch the file systems of other processes, which may not answer: two at once at most, so that whatever
 * hangs, the agent's other workers go on. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_LANE_H
#define AGENT_TRACER_PROFILER_LANE_H

#include <stdbool.h>

#define LANE_JOBS     2 /* at once */
#define LANE_STUCK_NS (30 * NS_PER_S)

struct lane;
struct loop;

struct lane *lane_new(struct loop *loop);

/* For jobs that wait only done() is called; those on workers end when they can. NULL is fine. */
void lane_free(struct lane *l);

/* As loop_work(), perhaps later. */
void lane_work(struct lane *l, void (*run)(void *arg), void (*done)(void *arg), void *arg);

/* A job has taken so long that its file system seems to hang. */
bool lane_is_stuck(const struct lane *l);

#endif
