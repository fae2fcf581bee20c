/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a code object's instructions, from its table of locations (3.11 and later), which is foreign
 * bytes. Pure. */
#ifndef AGENT_PYTHON_LINES_H
#define AGENT_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* The line from this instruction on, up to the next entry. */
struct python_line {
	uint32_t instruction; /* bytes into the code */
	uint32_t line; /* 0 = none */
};

struct python_lines {
	struct python_line *v; /* in order of instruction */
	size_t n;
};

/* Decodes the table, as far as it can be read. The caller frees it with python_lines_release(). */
void python_lines_decode(struct python_lines *out, const void *table, size_t len,
			 uint32_t first_line);
void python_lines_release(struct python_lines *lines);

/* The line of an instruction; `first_line` where the table has none. */
uint32_t python_lines_find(const struct python_lines *lines, int32_t instruction,
			   uint32_t first_line);

#endif
