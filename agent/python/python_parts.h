/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a struct python, shared by python.c (sampling) and python_cut.c (cuts). */
#ifndef AGENT_PYTHON_PYTHON_PARTS_H
#define AGENT_PYTHON_PYTHON_PARTS_H

#include "agent/python/python.h"
#include "agent/python/targets.h"
#include "base/loop.h"

/* How a frame is kept in a struct frame of stacks.h: `image` is the function, `offset` the line and this bit
 * for is_entry. */
#define NODE_IS_ENTRY (UINT64_C(1) << 32)

/* A sample as a record of the ring, which adds the time. */
struct sample_bytes {
	uint32_t process, tid, node, period_us;
};

/* A caller of python_when_current() that waits. */
struct waiter {
	void (*fn)(void *arg);
	void *arg;
};

/* The threads of a process. `places` maps a tid to 1 + its place in python_process.threads. */
struct threads {
	struct u32_map places;
	/* by place: node and generation of the thread's last sample that was not torn */
	uint32_t *nodes, *generations;
};

struct python {
	struct loop *loop;
	struct ring_limits limits;
	const struct local_pods *pods; /* NULL = none */
	struct ring *ring; /* of struct sample_bytes; NULL = not started */
	struct stacks *stacks;
	uint32_t generation; /* of the stacks' numbers: grows when some are freed */
	const struct python_function **functions; /* by number; the worker's */
	size_t n_functions;
	struct python_process *processes; /* by serial */
	struct threads *threads; /* of each of them */
	size_t n_processes, n_sampled;
	struct python_unread unread;
	int probe_errno;

	struct python_worker *worker;
	bool is_busy; /* the worker works */
	struct loop_timer timer;
	int hz;
	int64_t scanned_mono_ns;
	struct waiter *waiters;
	size_t n_waiters;
};

/* Finds a process in an array that is sorted by serial; NULL if it is not there. */
struct python_process *python_process_find(struct python_process *v, size_t n, uint32_t serial);

#endif
