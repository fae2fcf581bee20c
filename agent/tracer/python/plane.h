/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python samples as timelines: a plane "/host:CPU python [PID]" per process, with a line per thread. Where
 * consecutive samples have the same outermost functions, each of these functions becomes one event, nested in
 * its caller's, with the stats `file`, `line` (that of its first sample) and `samples` (their number). It
 * lasts from its first sample to one period after its last, or to the sample that shows something else. Torn
 * samples are counted and not shown.
 */
#ifndef AGENT_TRACER_PYTHON_PLANE_H
#define AGENT_TRACER_PYTHON_PLANE_H

#include "agent/python/python.h"
#include "xspace/xspace.h"

struct pod_view;

struct python_window {
	int64_t t0_raw_ns, t1_raw_ns;
	size_t max_depth; /* frames of a stack that the plane gets, outermost first */
	struct pod_view *pods; /* processes whose pod opted out get no plane; NULL = none did */
};

/* A process that needs more than its share of CPU time is sampled less often, so a short window may have no sample of it. As often as
 * that is usual. */
#define PYTHON_RARE_US 100000

struct python_plane_counts {
	uint64_t samples, torn;
	/* processes without a sample in the window, which are sampled less often than PYTHON_RARE_US and once in such a window; the last of
	 * them */
	size_t unsampled;
	uint32_t unsampled_pid, unsampled_rare_us;
};

/* On a worker, after python_cut_load(). */
void python_planes_build(const struct python_cut *cut, const struct python_window *window,
			 struct xs_builder *b, struct python_plane_counts *counts);

#endif
