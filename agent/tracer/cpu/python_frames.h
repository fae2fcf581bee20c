/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python functions in CPU samples: where a sample has the interpreter's function, the functions of the Python sample of
 * the same thread that is nearest in time, if it is within that one's period.
 *
 * Python functions call one another inside one call of the interpreter, up to one that C called: each call of the
 * interpreter stands for such a run, the innermost for the innermost. The kernel's walk often ends early in CPython: the
 * outermost call that it saw stands for all runs that are left. A sample without any has them all around it.
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

/* The Python stack of a thread at an instant; 0 = there is none, or it is not known. */
uint32_t python_frames_find(const struct python_frames *pf, uint32_t tid, int64_t raw_ns);

/* Puts the functions of `node` between the names of a sample: names[0 .. n), outermost first, with room for `max`. Of a
 * deeper result the outermost are left out. Returns how many there are. */
size_t python_frames_merge(const struct python_frames *pf, uint32_t node, uint32_t *names,
			   const bool *is_interpreter, size_t n, size_t max);

/* "forward (model.py)" for a name with PYTHON_NAME; and what it stands for. */
const char *python_frames_text(const struct python_frames *pf, uint32_t name);
const struct python_function *python_frames_function(const struct python_frames *pf, uint32_t name);

/* True for the name of the interpreter's function in CPython. */
bool python_frames_is_interpreter(const char *name);

#endif
