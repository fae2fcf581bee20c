/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts Python functions into CPU samples: in place of the interpreter's function come the functions of the
 * nearest Python sample of the same thread, if the CPU sample is within that sample's period.
 *
 * One call of the interpreter executes a chain of Python functions, from one that C called to the innermost
 * one. Each call of the interpreter stands for one chain, the innermost call for the innermost chain. The
 * kernel's walk often ends early in CPython, so the outermost call that it found stands for all chains that
 * are left. If it found none, all Python functions are put around the sample.
 */
#ifndef AGENT_TRACER_CPU_PYTHON_FRAMES_H
#define AGENT_TRACER_CPU_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/python/python.h"

/* Names of Python functions have this bit; names of symbols do not. */
#define PYTHON_NAME UINT32_C(0x80000000)

struct python_frames;

/* `cut` is borrowed, and was loaded. */
struct python_frames *python_frames_new(const struct python_cut *cut);
void python_frames_free(struct python_frames *pf); /* NULL is fine */

/* The Python stack (node) of a thread at an instant; 0 = it has none, or it is not known. */
uint32_t python_frames_find(const struct python_frames *pf, uint32_t tid, int64_t raw_ns);

/* Puts the functions of `node` between the names of a sample: names[0 .. n), outermost first, with room for
 * `max`. Of a deeper result the outermost are left out. Returns how many there are. */
size_t python_frames_merge(const struct python_frames *pf, uint32_t node, uint32_t *names,
			   const bool *is_interpreter, size_t n, size_t max);

/* The text of a name with PYTHON_NAME, "forward (model.py)", and the function that it is. */
const char *python_frames_text(const struct python_frames *pf, uint32_t name);
const struct python_function *python_frames_function(const struct python_frames *pf, uint32_t name);

/* True for the name of the interpreter's function in CPython. */
bool python_frames_is_interpreter(const char *name);

#endif
