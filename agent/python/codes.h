/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the code objects of a process are: function, file, lines. An object is read once and known by its address
 * from then on; since another one may be made at the same address, each sample copies the heads of all its code
 * objects by one call and compares them with what is known.
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

/*
 * Fills function and line of each frame; new functions are added to `fs`. False if the stack is torn: a code object
 * is none, an instruction is beyond its end, or two frames that follow one another on the thread's stack do not
 * meet. After a false result the caller copies the stack again.
 */
bool python_codes_name(struct python_codes *c, const struct python_memory *memory,
		       const struct python_layout *layout, struct python_functions *fs,
		       struct python_stack *stack);

#endif
