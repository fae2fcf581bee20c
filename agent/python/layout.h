/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CPython keeps the data of a stack: offsets in bytes in its structures, for one minor version. For
 * 3.11 and 3.12 layout.c has the offsets. From 3.13 on the process has a table of offsets at the start of
 * _PyRuntime; the order of its fields depends on the minor version. The table is foreign: offsets beyond the
 * reader's buffers are refused. Pure.
 */
#ifndef AGENT_PYTHON_LAYOUT_H
#define AGENT_PYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PYTHON_TABLE_BYTES 760 /* how much of _PyRuntime python_layout_load() may need */
#define PYTHON_STATE_BYTES 1024 /* of a thread's state */
#define PYTHON_FRAME_BYTES 128
#define PYTHON_CODE_BYTES  320
#define PYTHON_TEXT_BYTES  128 /* of a string or bytes object before its characters */
/* frames with this owner or a higher one are not of Python functions (3.12 and later) */
#define PYTHON_OWNER_SHIM 3
#define PYTHON_NO_OFFSET  UINT32_MAX

struct python_layout {
	int minor; /* of 3.x */

	uint32_t interpreters; /* in _PyRuntime: the first interpreter */
	uint32_t interpreter_next, interpreter_threads;

	/* In a thread's state. With thread_cframe, the state points to a C frame, and thread_frame is an
	 * offset in that. */
	uint32_t thread_next, thread_id, thread_chunk, thread_cframe, thread_frame;
	/* how many bytes of the state hold all of these, and the pointer behind thread_chunk */
	uint32_t thread_bytes;

	/* In a frame. frame_entry: a byte that is set in frames that C called (3.11). */
	uint32_t frame_code, frame_previous, frame_instruction, frame_owner, frame_entry,
		frame_locals;
	uint32_t frame_bytes;

	uint32_t code_file, code_name, code_table, code_first_line, code_instructions;
	/* bytes of a code object that hold all of these but code_instructions */
	uint32_t code_bytes;
	/* where the sizes of a frame's stack and locals are, in words */
	uint32_t code_stack, code_locals;

	uint32_t text_length, text_state, text_ascii,
		text_other; /* text_ascii, text_other: where the characters begin */
	uint32_t bytes_length, bytes_start;
};

/*
 * `version` is the process's Py_Version, `table` the first bytes of its _PyRuntime. ERR_UNSUPPORTED names a version
 * or a build that is not known, ERR_INVALID a table that is not one.
 */
MUST_CHECK int python_layout_load(struct python_layout *out, uint64_t version, const void *table,
				  size_t len, struct err *e);

#endif
