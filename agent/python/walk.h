/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of one thread of an interpreter, copied from outside while the thread may be running. What belongs
 * together is copied by one call: the thread's state and its stack of frames, where the last sample found them. A
 * copy that does not fit together is made again, a few times; then the sample is torn.
 *
 * All of it is foreign bytes: pointers may lead anywhere or in circles, so frames and calls are counted.
 */
#ifndef AGENT_PYTHON_WALK_H
#define AGENT_PYTHON_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/python/layout.h"
#include "agent/python/memory.h"

#define PYTHON_FRAMES_MAX 500 /* of a stack; of a deeper one the outermost are left out */

struct python_frame {
	uint64_t code; /* address of its code object */
	uint64_t at; /* its own address */
	int32_t instruction; /* bytes into the code; below 0 before the first one */
	bool is_entry; /* C called it: between it and its caller there are frames of C */
	bool in_chunk; /* on the thread's stack of frames, in the part that was copied with the state */
	uint32_t function, line; /* filled by python_codes_name() */
};

struct python_stack {
	struct python_frame v[PYTHON_FRAMES_MAX]; /* innermost first */
	size_t n;
	bool is_cut; /* outermost frames are left out */
};

/* Where the last sample of a thread found things; zeroed before the first one. */
struct python_hint {
	uint64_t cframe;
	uint64_t chunk; /* the newest piece of its stack of frames */
	uint64_t from; /* the part of it to copy */
	uint32_t len;
};

struct python_walk;

/* `memory` and `layout` are borrowed until the next call of set(). */
struct python_walk *python_walk_new(void);
void python_walk_free(struct python_walk *w); /* NULL is fine */
void python_walk_set(struct python_walk *w, const struct python_memory *memory,
		     const struct python_layout *layout);

enum python_walk_result {
	PYTHON_WALK_WHOLE,
	PYTHON_WALK_TORN,
	PYTHON_WALK_GONE, /* the state cannot be read: errno has the cause */
};

/* Copies the state of the thread at `thread`, and its frames to `out`. Code objects are not looked at. */
enum python_walk_result python_walk_thread(struct python_walk *w, uint64_t thread,
					   struct python_hint *hint, struct python_stack *out);

/* Of the state that was copied last: the thread's id, as its process knows it, and the next thread's state. */
uint64_t python_walk_id(const struct python_walk *w);
uint64_t python_walk_next(const struct python_walk *w);

#endif
