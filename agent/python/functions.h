/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of Python programs by number: equal functions have the same number in all processes. A function
 * never changes and lives as long as the table. Texts are clean.
 */
#ifndef AGENT_PYTHON_FUNCTIONS_H
#define AGENT_PYTHON_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#define PYTHON_FUNCTIONS_MAX 65536

/* Numbers of functions that stand for others. */
#define PYTHON_FUNCTION_MANY 1 /* all functions above the limit */
#define PYTHON_FUNCTION_CUT  2 /* the outermost functions of a stack that is too deep */

struct python_function {
	char *name, *file;
	uint32_t first_line;
};

struct python_functions;

struct python_functions *python_functions_new(void);
void python_functions_free(struct python_functions *fs); /* NULL is fine */

/* The number, never 0. PYTHON_FUNCTION_MANY when all are taken. */
uint32_t python_functions_add(struct python_functions *fs, const char *name, const char *file,
			      uint32_t first_line);

size_t python_functions_count(const struct python_functions *fs); /* numbers are below this */
const struct python_function *python_functions_get(const struct python_functions *fs, uint32_t n);

#endif
