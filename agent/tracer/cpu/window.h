/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of CPU samples: which thread ran when, in which stack. It takes the bytes of the kernel's rings,
 * puts their records in order of time, and keeps 16 bytes per sample. It makes no system call, except for the
 * ring's file. A worker asks the system for the names of functions, processes and threads (struct
 * cpu_questions); the answers are applied later.
 */
#ifndef AGENT_TRACER_CPU_WINDOW_H
#define AGENT_TRACER_CPU_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/images.h"
#include "agent/perf/processes.h"
#include "agent/perf/threads.h"
#include "agent/tracer/ring.h"

struct pod_view;
struct python_cut;
struct symbols;
struct cpu_window;

struct cpu_sample {
	int64_t raw_ns;
	uint32_t tid;
	uint32_t node; /* the stack: its innermost frame; 0 = none */
};

struct cpu_window_conf {
	struct ring_limits ring;
	size_t max_nodes; /* of the tree of stacks */
	size_t max_images;
	int64_t now_raw_ns; /* samples begin here */
};

struct cpu_window *cpu_window_new(const struct cpu_window_conf *conf);
void cpu_window_free(struct cpu_window *w);

/* Records of one CPU's ring, as the kernel wrote them. They wait for the flush. What the kernel dropped is missing since
 * the record of this CPU before. */
void cpu_window_feed(struct cpu_window *w, size_t cpu, const void *bytes, size_t len);

/* Applies the fed records that are stamped before `until_raw_ns`, in order of time. Rings are read one after
 * the other, so those read first lack records of the newest instant. */
void cpu_window_flush(struct cpu_window *w, int64_t until_raw_ns);

/* The samples; records that the kernel dropped are among its losses. */
struct ring *cpu_window_ring(const struct cpu_window *w);

/* How many samples were ever taken, and nodes the tree holds now: for status and tests. */
uint64_t cpu_window_samples(const struct cpu_window *w);
size_t cpu_window_nodes(const struct cpu_window *w);

/* ---- names: found soon after the sample, since the process may have ended when its samples are cut ---- */

struct cpu_question {
	uint32_t node; /* of the window */
	uint32_t image; /* index into `images` */
	uint64_t offset;
	uint32_t name; /* the answer: a number of symbols_text() */
};

struct cpu_questions {
	struct cpu_question *v;
	size_t n;
	struct image *images; /* copies */
	size_t n_images;
	struct process_question *processes;
	size_t n_processes;
	struct thread_question *threads;
	size_t n_threads;
	uint32_t generation; /* of the window's tree */
	uint32_t epoch; /* of the names in the answers: symbols_epoch() */
};

/* The questions that are open; NULL if there are none. The caller frees them with cpu_questions_free(). */
struct cpu_questions *cpu_window_take_questions(struct cpu_window *w);

/* On a worker, between symbols_begin() and symbols_end(). */
void cpu_questions_answer(struct cpu_questions *q, struct symbols *sy);

void cpu_window_apply_answers(struct cpu_window *w, const struct cpu_questions *q);
void cpu_questions_free(struct cpu_questions *q); /* NULL is fine */

/* ---- cutting ---- */

struct cpu_node {
	uint64_t offset;
	uint32_t image; /* index into `images` */
	uint32_t parent; /* 0 = none */
	uint32_t name; /* 0 = not known yet */
	/* its name as a sample's innermost frame: without a known function, the file's */
	uint32_t leaf_name;
};

/* The samples of a window, with everything that a worker needs to make a plane of them. */
struct cpu_cut {
	int64_t t0_raw_ns, t1_raw_ns, period_ns;
	size_t max_depth; /* frames of a stack that the plane gets, outermost first; 0 = all */
	struct pod_view *pods; /* a reference: which thread is of which pod; NULL = no pods */
	struct ring_cut *records;
	struct python_cut *python; /* of the same time, for its functions; NULL = none */
	struct cpu_sample *samples; /* read from the records, of a large cut by cpu_cut_load() */
	size_t n_samples, cap_samples;
	bool is_loaded;
	struct cpu_node *
		nodes; /* 1 .. n_nodes - 1; of a large cut all at first, then those of the samples */
	size_t n_nodes;
	struct image *images;
	size_t n_images;
	struct thread_question *threads;
	size_t n_threads;
	uint32_t epoch; /* of the names */
};

/* Takes `records`, a cut of the window's ring from `from_raw_ns` on, made now. */
struct cpu_cut *cpu_window_cut(const struct cpu_window *w, int64_t from_raw_ns,
			       struct ring_cut *records);

/* Any thread. Reads the samples, and drops the nodes that no sample has; afterwards callers come before
 * callees. Returns how many samples could not be read. */
uint64_t cpu_cut_load(struct cpu_cut *cut);
void cpu_cut_free(struct cpu_cut *cut); /* NULL is fine */

#endif
