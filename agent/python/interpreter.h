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
struct file_keeper;
struct python_files;

/* `keeper` has readers for them, which may hang (agent/proc/far_file.h); borrowed. NULL: the callers themselves read. */
struct python_files *python_files_new(const struct file_keeper *keeper);
void python_files_free(struct python_files *files); /* NULL is fine */

/* A round of looks begins. */
void python_files_begin(struct python_files *files);

/* Any thread. From now on no file is read, and a look that waits for one ends soon. */
void python_files_stop(struct python_files *files);

/*
 * ERR_NOT_FOUND: the process runs no Python. ERR_UNSUPPORTED: a CPython that cannot be read; the sentence has its
 * version. ERR_DENIED names what is missing. ERR_CLOSED: the process has ended. ERR_TIMEOUT: the file system of its files does
 * not answer.
 */
MUST_CHECK int python_interpreter_find(struct python_interpreter *out, struct python_files *files,
				       uint32_t pid, const struct python_memory *memory,
				       struct err *e);

#endif
