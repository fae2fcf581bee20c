/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of one thread of an interpreter, copied from outside while the thread may be running. One system
 * call copies the thread's state and its stack of frames, from where the last sample found them. If the parts
 * do not fit together, they are copied again, a few times; then the sample is torn.
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

/* frames of a stack; the outermost frames of a deeper one are left out */
#define PYTHON_FRAMES_MAX 500

struct python_frame {
	uint64_t code; /* address of its code object */
	uint64_t at; /* its own address */
	int32_t instruction; /* bytes into the code; below 0 before the first one */
	bool is_entry; /* C called it: between it and its caller there are frames of C */
	/* it is in the part of the thread's stack that was copied together with the state */
	bool in_chunk;
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
	uint64_t from; /* the part of the chunk to copy */
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
