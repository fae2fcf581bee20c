/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CPython keeps what a stack is read from: offsets in its structures, in bytes, for one minor version.
 * 3.11 and 3.12 are tables here. From 3.13 on the process has a table of its own at the start of _PyRuntime; which
 * of its fields is which differs from minor version to minor version. The bytes are foreign: offsets beyond what
 * the reader reserves are refused. Pure.
 */
#ifndef AGENT_PYTHON_LAYOUT_H
#define AGENT_PYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PYTHON_TABLE_BYTES 760 /* of _PyRuntime, at most, that python_layout_load() uses */
#define PYTHON_STATE_BYTES 1024 /* of a thread's state */
#define PYTHON_FRAME_BYTES 128
#define PYTHON_CODE_BYTES  320
#define PYTHON_TEXT_BYTES  128 /* of a string or bytes object before its characters */
#define PYTHON_OWNER_SHIM \
	3 /* from this owner on a frame is no Python function's (3.12 and later) */
#define PYTHON_NO_OFFSET UINT32_MAX

struct python_layout {
	int minor; /* of 3.x */

	uint32_t interpreters; /* in _PyRuntime: the first interpreter */
	uint32_t interpreter_next, interpreter_threads;

	/* Of a thread's state. With `cframe` the current frame is found through the C frame, at `frame` in it. */
	uint32_t thread_next, thread_id, thread_chunk, thread_cframe, thread_frame;
	uint32_t thread_bytes; /* that have all of these, and the pointer behind the chunk's */

	/* Of a frame. `entry`: a byte that is set in frames that C called (3.11). */
	uint32_t frame_code, frame_previous, frame_instruction, frame_owner, frame_entry,
		frame_locals;
	uint32_t frame_bytes;

	uint32_t code_file, code_name, code_table, code_first_line, code_instructions;
	uint32_t code_bytes; /* that have the first four and the next two */
	uint32_t code_stack, code_locals; /* how many words a frame needs for each */

	uint32_t text_length, text_state, text_ascii,
		text_other; /* the last two: where characters begin */
	uint32_t bytes_length, bytes_start;
};

/*
 * `version` is the process's Py_Version, `table` the first bytes of its _PyRuntime. ERR_UNSUPPORTED names a version
 * or a build that is not known, ERR_INVALID a table that is not one.
 */
MUST_CHECK int python_layout_load(struct python_layout *out, uint64_t version, const void *table,
				  size_t len, struct err *e);

#endif
