/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process has what code where, and what its threads are called: fed with the kernel's news as
 * they happen, and completed from /proc for what was there before us. No system calls here.
 */
#ifndef AGENT_PERF_PROCESSES_H
#define AGENT_PERF_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/images.h"
#include "agent/perf/decode.h"
#include "agent/proc/maps.h"
#include "agent/perf/stacks.h"

#define COMM_BYTES 16

struct processes;

/* `images` stays the caller's and outlives this. */
struct processes *processes_new(struct images *images);
void processes_free(struct processes *ps);

/* Applies a MAP, COMM, FORK or EXIT; records come in order of time. */
void processes_apply(struct processes *ps, const struct perf_record *rec);

/* Thread `tid` of `pid` was seen running. */
void processes_seen(struct processes *ps, uint32_t pid, uint32_t tid);

/* What stands at a user address of the process. Code of a process whose mappings are not known yet is
 * in its own image, at its address. */
struct frame processes_frame(struct processes *ps, uint32_t pid, uint64_t address);

/* Marks the images that mappings name, for images_sweep(). */
void processes_mark(const struct processes *ps, bool *used);

/* Forgets threads that ended before `ended_before_ns`. */
void processes_sweep(struct processes *ps, int64_t ended_before_ns);

/* ---- what is to be asked of /proc, by a worker ---- */

struct process_question {
	uint32_t pid;
	uint64_t serial; /* of the process' image: the instance that was asked about */
	bool answered;
	struct proc_maps maps; /* the answer */
};

struct thread_question {
	uint32_t pid, tid;
	char comm[COMM_BYTES]; /* the answer; "" if there is none */
};

/* All threads that were seen, with what is known of them: name "" if nothing. The caller frees the array. */
struct thread_question *processes_threads(const struct processes *ps, size_t *n);

/* Arrays of yours with at most `max` open questions each; every one is asked once. */
size_t processes_ask(struct processes *ps, struct process_question **out, size_t max);
size_t threads_ask(struct processes *ps, struct thread_question **out, size_t max);

/* Answers that are still of use are copied. */
void processes_answer(struct processes *ps, const struct process_question *q);
void threads_answer(struct processes *ps, const struct thread_question *q);

#endif
