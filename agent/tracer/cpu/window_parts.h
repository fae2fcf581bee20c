/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a cpu_window, shared by cpu_window.c (recording) and cpu_cut.c (questions, cuts). */
#ifndef AGENT_TRACER_CPU_WINDOW_PARTS_H
#define AGENT_TRACER_CPU_WINDOW_PARTS_H

#include "agent/tracer/cpu/window.h"
#include "agent/perf/stacks.h"
#include "base/buf.h"

#define LOSSES_KEPT 64

/* A record that was fed and not yet applied. */
struct pending {
	int64_t raw_ns;
	size_t at, len; /* in `fed` */
};

struct loss {
	int64_t raw_ns;
	uint64_t count;
};

struct cpu_window {
	struct images *images;
	struct processes *processes;
	struct stacks *stacks;
	size_t max_nodes;
	uint32_t generation; /* node numbers hold within one */
	uint32_t first_unnamed; /* all nodes before have names */
	uint32_t epoch; /* of the names; 0 = there are none */

	struct cpu_sample *ring;
	size_t cap;
	uint64_t n; /* samples ever; the newest is at (n - 1) % cap */
	uint64_t floor; /* older ones are dropped */
	int64_t begin_raw_ns;

	struct loss losses[LOSSES_KEPT];
	uint64_t n_losses;

	struct buf fed;
	struct pending *pending;
	size_t n_pending, pending_cap;
	int64_t swept_raw_ns; /* when threads that ended were last forgotten */
	int64_t tidied_raw_ns; /* when images last ran out */
};

/* The oldest sample that is still there: a number below or equal to n. */
uint64_t cpu_window_oldest(const struct cpu_window *w);

#endif
