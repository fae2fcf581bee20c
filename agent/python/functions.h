/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of Python programs by number: equal functions have the same number in all processes. A function
 * never changes, and lives until python_functions_sweep() frees it. Texts are clean.
 */
#ifndef AGENT_PYTHON_FUNCTIONS_H
#define AGENT_PYTHON_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYTHON_FUNCTIONS_MAX 65536
/* With so many, those that are not needed any more are to be forgotten: what comes meanwhile has room. */
#define PYTHON_FUNCTIONS_MUCH ((size_t)PYTHON_FUNCTIONS_MAX / 8 * 7)

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

/* Frees the functions whose place in `keep` is false; their numbers are given again. `keep` has a place for each number; those of
 * above stay in any case. */
void python_functions_sweep(struct python_functions *fs, const bool *keep);

size_t python_functions_used(const struct python_functions *fs); /* not freed */
uint64_t python_functions_changes(const struct python_functions *fs); /* becomes more with each */

size_t python_functions_count(const struct python_functions *fs); /* numbers are below this */
const struct python_function *python_functions_get(const struct python_functions *fs,
						   uint32_t n); /* NULL: it was freed */

#endif
