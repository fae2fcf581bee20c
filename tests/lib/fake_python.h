/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process that runs CPython 3.12, as a test makes it: an interpreter, threads, frames, code objects.
 * Everything may be changed afterwards, and between two copies.
 */
#ifndef TESTS_FAKE_PYTHON_H
#define TESTS_FAKE_PYTHON_H

#include "agent/python/interpreter.h"

#define FAKE_PYTHON_BASE  UINT64_C(0x7f0000000000)
#define FAKE_PYTHON_BYTES ((size_t)2 << 20)

struct fake_python {
	uint8_t bytes[FAKE_PYTHON_BYTES];
	size_t used;
	size_t reads; /* calls so far */
	void (*before_read)(struct fake_python *f, void *arg); /* or NULL */
	void *arg;
	struct python_memory memory;
	struct python_interpreter interpreter;
	uint64_t first; /* the interpreter's state */
};

struct fake_python *fake_python_new(void);
void fake_python_free(struct fake_python *f);

uint64_t fake_python_get(const struct fake_python *f, uint64_t address);
void fake_python_set(struct fake_python *f, uint64_t address, uint64_t v);
void fake_python_set32(struct fake_python *f, uint64_t address, uint32_t v);

/* A string; all characters below 128. */
uint64_t fake_python_text(struct fake_python *f, const char *s);

/* A code object that needs 10 words for its frames beside what each frame has. Its table says that its instructions
 * are in the lines first_line + 1, + 2, ..., two bytes each. */
uint64_t fake_python_code(struct fake_python *f, const char *name, const char *file,
			  uint32_t first_line);

/* A thread without frames, first in the list. Returns its state. */
uint64_t fake_python_thread(struct fake_python *f, uint32_t id);

/* A frame on top of the thread's stack, in its instruction number `at`. Returns its address. */
uint64_t fake_python_push(struct fake_python *f, uint64_t thread, uint64_t code, uint32_t at);

#endif
