/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executable mappings of all processes: which code each has at which address. Made from the kernel's records;
 * completed from /proc for processes older than the agent. Makes no system calls.
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

struct processes;

/* `images` stays the caller's and outlives this. */
struct processes *processes_new(struct images *images);
void processes_free(struct processes *ps);

/* Applies a MAP, COMM, FORK or EXIT, ignores others; records come in order of time. */
void processes_apply(struct processes *ps, const struct perf_record *rec);

/* The frame of a user address. If the process's mappings are not known yet, the frame is in the process's own
 * image, at that address. */
struct frame processes_frame(struct processes *ps, uint32_t pid, uint64_t address);

/* Marks the images that mappings name, for images_sweep(). */
void processes_mark_images(const struct processes *ps, bool *used);

/* ---- questions that a worker answers from /proc ---- */

struct process_question {
	uint32_t pid;
	uint64_t serial; /* of the process's image: identifies the instance of the pid */
	bool answered;
	struct proc_maps maps; /* the answer */
};

/* At most `max` open questions; each is asked once. Returns how many; the caller frees `*out`. */
size_t processes_take_questions(struct processes *ps, struct process_question **out, size_t max);

/* Copies an answer that still applies. */
void processes_apply_answer(struct processes *ps, const struct process_question *q);

#endif
