/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a cpu_window, shared by window.c (recording) and cut.c (questions, cuts). */
#ifndef AGENT_TRACER_CPU_WINDOW_PARTS_H
#define AGENT_TRACER_CPU_WINDOW_PARTS_H

#include "agent/tracer/cpu/window.h"
#include "agent/perf/stacks.h"
#include "base/buf.h"

/* A record that was fed and not yet applied. */
struct pending {
	int64_t raw_ns;
	size_t at, len; /* its place in `fed`, in bytes */
};

/* The most frames of one stack that are recorded. */
#define CPU_FRAMES_MAX 256

/* A sample as a record of the ring, which adds the time. */
struct sample_bytes {
	uint32_t tid, node;
};

struct cpu_window {
	struct images *images;
	struct processes *processes;
	struct threads *threads;
	struct stacks *stacks;
	size_t max_nodes;
	uint32_t generation; /* of node numbers: grows when nodes are freed */
	uint32_t first_unnamed; /* all nodes with lower numbers have names, or are free */
	uint32_t epoch; /* of the names; 0 = there are none */

	struct ring *ring; /* of struct sample_bytes */
	uint64_t n; /* samples ever */

	int64_t *fed_raw_ns; /* of each CPU, of its last record; 0 = none */
	size_t n_cpus;
	struct buf fed;
	struct pending *pending;
	size_t n_pending, pending_cap;
	int64_t swept_raw_ns; /* when threads that ended were last forgotten */
	int64_t images_full_raw_ns; /* when stacks were last freed because images ran out */
};

#endif
