/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds CPython in a process. Reads the file that has _PyRuntime (libpython or the executable) as the process
 * sees it, and checks that it is the mapped one. For workers: blocks.
 */
#ifndef AGENT_PYTHON_INTERPRETER_H
#define AGENT_PYTHON_INTERPRETER_H

#include "agent/python/layout.h"
#include "agent/python/memory.h"

struct python_interpreter {
	struct python_layout layout;
	uint64_t runtime; /* address of _PyRuntime in the process */
};

/* Remembers files, so that each is read once. */
struct python_files;

struct python_files *python_files_new(void);
void python_files_free(struct python_files *files); /* NULL is fine */

/*
 * ERR_NOT_FOUND: the process runs no Python. ERR_UNSUPPORTED: a CPython that cannot be read; the sentence has its
 * version. ERR_DENIED names what is missing. ERR_CLOSED: the process has ended.
 */
MUST_CHECK int python_interpreter_find(struct python_interpreter *out, struct python_files *files,
				       uint32_t pid, const struct python_memory *memory,
				       struct err *e);

#endif
