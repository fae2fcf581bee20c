/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code objects of a process: function, file and lines. An object is read once, and then found by its
 * address. Another object may be made at the same address, so each sample copies the heads of all its code
 * objects with one call and compares them with the known ones.
 */
#ifndef AGENT_PYTHON_CODES_H
#define AGENT_PYTHON_CODES_H

#include <stdbool.h>

#include "agent/python/functions.h"
#include "agent/python/walk.h"

#define PYTHON_CODES_MAX 8192 /* of one process; then all are forgotten and read again */

struct python_codes;

struct python_codes *python_codes_new(void);
void python_codes_free(struct python_codes *c); /* NULL is fine */

/* Forgets all code objects: the numbers of their functions may not hold any more. */
void python_codes_forget(struct python_codes *c);

/*
 * Fills function and line of each frame; adds new functions to `fs`. False if the stack is torn, so that the
 * caller must copy it again: a code object is malformed, an instruction is beyond the end of its code, or two
 * neighbouring frames on the thread's stack are not adjacent in memory.
 */
bool python_codes_name(struct python_codes *c, const struct python_memory *memory,
		       const struct python_layout *layout, struct python_functions *fs,
		       struct python_stack *stack);

#endif
