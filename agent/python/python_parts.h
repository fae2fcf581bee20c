/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a struct python, shared by python.c (sampling), python_take.c (what rounds bring) and python_cut.c
 * (cuts). */
#ifndef AGENT_PYTHON_PYTHON_PARTS_H
#define AGENT_PYTHON_PYTHON_PARTS_H

#include "agent/python/python.h"
#include "agent/python/rounds.h"
#include "base/loop.h"

/* How a frame is kept in a struct frame of stacks.h: `image` is the function, `offset` the line and this bit
 * for is_entry. */
#define NODE_IS_ENTRY (UINT64_C(1) << 32)

#define THREADS_KNOWN 16384 /* threads of one process, ended ones included */

/* A sample as a record of the ring, which adds the time. */
struct sample_bytes {
	uint32_t process, tid, node, period_us;
};

/* A caller of python_when_current() that waits. */
struct waiter {
	void (*fn)(void *arg);
	void *arg;
	int64_t until_mono_ns;
};

/* Of a thread. Threads lie in a list by the time of their last sample: `older` and `newer` are 1 + a place, 0 = none. */
struct last_sample {
	int64_t raw_ns;
	/* of the last stack that was copied whole; PYTHON_NODE_TORN if it is not there, or not any more */
	uint32_t node;
	uint32_t older, newer;
};

/* The threads of a process. `places` maps a tid to 1 + its place in python_process.threads. */
struct threads {
	struct u32_map places;
	struct last_sample *last; /* by place */
	size_t cap; /* of both */
	uint32_t oldest, newest; /* ends of the list */
};

struct python {
	struct loop *loop;
	struct ring_limits limits;
	const struct local_pods *pods; /* NULL = none */
	const struct file_keeper *files; /* NULL = none */
	struct ring *ring; /* of struct sample_bytes; NULL = not started */
	struct stacks *stacks;
	size_t nodes_max; /* of `stacks` */
	bool must_renew; /* a thread's last stack is not known here: it is to be copied anew, even if it has not moved */
	const struct python_function **functions; /* by number; the worker's */
	size_t n_functions;
	uint64_t functions_changes; /* as of when these were mirrored */
	struct python_process *processes; /* by serial */
	struct threads *threads; /* of each of them */
	size_t n_processes, n_sampled;
	size_t n_crowded; /* sampled processes that have more threads than are sampled */
	struct python_unread unread;
	int probe_errno;

	struct python_worker *worker;
	bool is_busy; /* the worker works */
	struct loop_timer timer, waiters_timer;
	int hz;
	int64_t scanned_mono_ns;
	struct waiter *waiters;
	size_t n_waiters;
};

/* Takes a process that is sampled, or has ended. */
void python_take_process(struct python *py, const struct python_sampled *sampled);

/* Puts a sample of such a process into the ring; `frames` are its own. */
void python_take_sample(struct python *py, const struct handed *sample,
			const struct handed_frame *frames);

/* Frees the functions that no stack of a sample has, and the older half of the samples, again and again until a quarter of the table is
 * free. */
void python_forget_functions(struct python *py, struct python_functions *fs);

/* Forgets processes that are not among those n and have no sample in the ring any more. */
void python_forget_processes(struct python *py, const struct python_sampled *sampled, size_t n);

void python_process_release(struct python *py, size_t i);

/* Finds a process in an array that is sorted by serial; NULL if it is not there. */
struct python_process *python_process_find(struct python_process *v, size_t n, uint32_t serial);

#endif
