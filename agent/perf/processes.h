/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process has which code at which address, and the names of its threads. Fed with the kernel's
 * records; completed from /proc for processes older than the agent. Makes no system calls.
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

/* Notes that thread `tid` of `pid` ran. */
void processes_note_thread(struct processes *ps, uint32_t pid, uint32_t tid);

/* The frame of a user address. Code of a process whose mappings are not known yet is in the process's own
 * image, at its address. */
struct frame processes_frame(struct processes *ps, uint32_t pid, uint64_t address);

/* Marks the images that mappings name, for images_sweep(). */
void processes_mark_images(const struct processes *ps, bool *used);

/* Forgets threads that ended before `ended_before_ns`. */
void processes_sweep(struct processes *ps, int64_t ended_before_ns);

/* ---- questions that a worker answers from /proc ---- */

struct process_question {
	uint32_t pid;
	uint64_t serial; /* of the process's image: identifies the instance of the pid */
	bool answered;
	struct proc_maps maps; /* the answer */
};

struct thread_question {
	uint32_t pid, tid;
	char comm[COMM_BYTES]; /* the answer; "" if there is none */
};

/* All threads that ran, with their names; "" = not known. The caller frees the array. */
struct thread_question *processes_threads(const struct processes *ps, size_t *n);

/* At most `max` open questions; each is asked once. Returns how many; the caller frees `*out`. */
size_t processes_take_questions(struct processes *ps, struct process_question **out, size_t max);
size_t threads_take_questions(struct processes *ps, struct thread_question **out, size_t max);

/* Copies answers that still apply. */
void processes_apply_answer(struct processes *ps, const struct process_question *q);
void threads_apply_answer(struct processes *ps, const struct thread_question *q);

#endif
