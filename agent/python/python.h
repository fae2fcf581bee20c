/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples the Python programs of this host: which thread was in which function and line, and when. A worker
 * finds the processes and copies their stacks, without stopping them (targets.h); the samples are kept in a
 * ring. Nothing happens before python_start(). Loop thread, except where a function says otherwise.
 */
#ifndef AGENT_PYTHON_PYTHON_H
#define AGENT_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/python/functions.h"
#include "agent/tracer/ring.h"

struct file_keeper;
struct local_pods;
struct loop;
struct python;

/* `pods` tells which processes may not be sampled, NULL = none; `files` has processes that read files and memory of
 * programs, which may hang (sampler.h); NULL = the workers do. Both outlive this. */
struct python *python_new(struct loop *l, const struct ring_limits *limits,
			  const struct local_pods *pods, const struct file_keeper *files);
void python_free(struct python *py); /* NULL is fine */

/* Begins to find processes, and to sample them `hz` times a second; 0 = not yet. */
void python_start(struct python *py, int hz);

/* Sets the rate from now on. Sampling takes at most a 50th of a CPU: processes with very many threads are
 * sampled less often (turns.h). */
void python_set_hz(struct python *py, int hz);

/* NULL before python_start(). */
struct ring *python_ring(const struct python *py);

/* Processes that are sampled, those that run Python and cannot be, those that are left out as too many, and sampled ones of
 * which threads are left out. */
struct python_health {
	size_t sampled, denied, unsupported, left_out, crowded;
	bool is_own_only; /* only processes of the agent's own user can be read */
	/* why the agent cannot read even its own memory: the call is missing or forbidden; 0 = it can */
	int errno_value;
	char denied_why[200], unsupported_why[200]; /* of one process; "" if there is none */
};
void python_get_health(const struct python *py, struct python_health *out);

/* Calls fn(arg) when all samples up to now are in the ring: before it returns, or within 60 ms; at that time at the latest,
 * if the memory of a program keeps them. After python_forget(arg) it is not called. */
void python_when_current(struct python *py, int64_t until_mono_ns, void (*fn)(void *arg),
			 void *arg);
void python_forget(struct python *py, const void *arg);

/* ---- cutting ---- */

#define PYTHON_NODE_TORN UINT32_MAX /* in place of a node: the copied stack was torn */

struct python_sample {
	int64_t raw_ns;
	uint32_t process; /* serial */
	uint32_t tid;
	/* the stack: its innermost frame; 0 = no Python function; or PYTHON_NODE_TORN */
	uint32_t node;
	uint32_t period_us; /* until the next sample, as planned */
};

/* A frame: a function at a line, called by the frame `parent`. */
struct python_node {
	uint32_t function; /* index into `functions` */
	uint32_t line;
	uint32_t parent; /* 0 = none */
	bool is_entry; /* C called it: frames of C are between it and its parent */
};

struct python_thread_name {
	uint32_t tid;
	char name[16];
};

struct python_process {
	uint32_t serial, pid;
	int minor; /* of CPython 3.x */
	char command[96];
	int64_t ended_raw_ns; /* 0 = it runs */
	int64_t first_raw_ns; /* its first sample; 0 = it has none yet */
	uint32_t rare_us; /* how often it is sampled now, if less often than asked for; else 0 */
	struct python_thread_name *threads;
	size_t n_threads;
};

/* The samples of a window, with everything that a worker needs to read them. */
struct python_cut {
	struct ring_cut *records;
	struct python_sample *samples; /* by process, thread, time; read by python_cut_load() */
	size_t n_samples, cap_samples;
	struct python_node *nodes; /* 1 .. n_nodes - 1 */
	size_t n_nodes;
	uint32_t
		*place; /* of the ring's nodes among `nodes`, until the samples are read; or NULL */
	bool is_loaded;
	struct python_function *functions;
	size_t n_functions;
	struct python_process *processes; /* by serial */
	size_t n_processes;
};

/* Takes `records`, which is a cut of the ring made just now. */
struct python_cut *python_cut_new(const struct python *py, struct ring_cut *records);

/* Any thread. Returns how many samples could not be read. */
uint64_t python_cut_load(struct python_cut *cut);
void python_cut_free(struct python_cut *cut); /* NULL is fine */

/* NULL if it is not known. */
const struct python_process *python_cut_process(const struct python_cut *cut, uint32_t serial);

#endif
