/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes files of PyTorch processes that no recording will fetch: the recording was cancelled or given up,
 * or the agent that requested them was killed. They are removed soon after they appear. Loop thread; files
 * are looked for on a worker.
 */
#ifndef AGENT_TRACER_PYTORCH_LEFTOVERS_H
#define AGENT_TRACER_PYTORCH_LEFTOVERS_H

#include <stdint.h>

#include "agent/tracer/pytorch/trace_file.h"

/* Looked for at once, after 1 s, 2 s, and so on, then every 5 min. */
#define LEFTOVERS_MAX	   2048 /* with more, the oldest one is forgotten */
#define LEFTOVERS_FIRST_NS NS_PER_S
#define LEFTOVERS_LAST_NS  (300 * NS_PER_S)

struct loop;
struct leftovers;

/* `keeper`: for far_files_new(). */
struct leftovers *leftovers_new(struct loop *loop, const struct file_keeper *keeper);

/* Ends the worker's job. A file that is written later is not removed now, but by the next agent. NULL is
 * fine. */
void leftovers_free(struct leftovers *l);

/* Adds a file that the process may write until `by_mono_ns`. With the name "": all files that other agents
 * told that process to write; `place->inner_pid` is a part of their names. */
void leftovers_add(struct leftovers *l, const struct trace_place *place, int64_t by_mono_ns);

#endif
