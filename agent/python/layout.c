/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/layout.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define COOKIE "xdebugpy"
/* level of a release candidate in Py_Version: alphas and betas have layouts of their own */
#define RELEASE_LEVEL 0xc
#define OBJECT_BYTES  16 /* reference count and type */
#define OFFSET_MAX    (UINT64_C(64) << 20) /* in _PyRuntime, which holds the first interpreter */

/* The offsets that are the same in all versions: of strings and bytes, and around a code object's first line. */
static const struct python_layout common = {
	.thread_cframe = PYTHON_NO_OFFSET,
	.frame_entry = PYTHON_NO_OFFSET,
	.text_length = 16,
	.text_state = 32,
	.text_ascii = 40,
	.text_other = 56,
	.bytes_length = 16,
	.bytes_start = 32,
};

static void set_3_11(struct python_layout *l)
{
	l->interpreters = 40;
	l->interpreter_next = 0;
	l->interpreter_threads = 16;
	l->thread_next = 8;
	l->thread_cframe = 56;
	l->thread_frame = 8;
	l->thread_id = 160;
	l->thread_chunk = 296;
	l->frame_code = 32;
	l->frame_previous = 48;
	l->frame_instruction = 56;
	l->frame_entry = 68;
	l->frame_owner = 69;
	l->frame_locals = 72;
	l->code_first_line = 72;
	l->code_file = 112;
	l->code_name = 128;
	l->code_table = 136;
	l->code_instructions = 184;
	l->text_ascii = 48;
	l->text_other = 72;
}

static void set_3_12(struct python_layout *l)
{
	l->interpreters = 40;
	l->interpreter_next = 0;
	l->interpreter_threads = 72;
	l->thread_next = 8;
	l->thread_cframe = 56;
	l->thread_frame = 0;
	l->thread_id = 144;
	l->thread_chunk = 232;
	l->frame_code = 0;
	l->frame_previous = 8;
	l->frame_instruction = 56;
	l->frame_owner = 70;
	l->frame_locals = 72;
	l->code_first_line = 68;
	l->code_file = 112;
	l->code_name = 128;
	l->code_table = 136;
	l->code_instructions = 192;
}

/* Which 64-bit field of a process's own table has which offset. */
enum {
	FIELD_VERSION = 1,
	FIELD_FREE_THREADED = 2,
	FIELD_INTERPRETERS = 5,
	FIELD_NEXT = 8,
	FIELD_THREADS = 9
};

static const struct fields {
	int minor;
	uint8_t thread_next, thread_frame, thread_id, thread_chunk;
	uint8_t frame; /* its size; then previous, code, instruction, locals, owner */
	uint8_t code; /* its size; then file, name, qualified name, table, first line, ..., instructions */
	uint8_t bytes_start;
	uint8_t text; /* its size; then state, length, where ASCII begins */
} fields_by_minor[] = {
	{ 13, 21, 23, 25, 26, 28, 34, 66, 67 },
	{ 14, 24, 26, 28, 29, 31, 39, 76, 77 },
	{ 15, 24, 26, 31, 32, 39, 47, 88, 89 },
};

struct table {
	const uint8_t *bytes;
	size_t len;
	bool bad;
};

/* Field `n`, an offset below `limit`. */
static uint32_t field(struct table *t, unsigned int n, uint64_t limit)
{
	uint64_t v = 0;

	if ((n + 1) * sizeof(v) <= t->len)
		memcpy(&v, t->bytes + n * sizeof(v), sizeof(v));
	else
		t->bad = true;
	if (v >= limit)
		t->bad = true;
	return (uint32_t)v;
}

static void set_from_table(struct python_layout *l, const struct fields *f, struct table *t)
{
	l->interpreters = field(t, FIELD_INTERPRETERS, OFFSET_MAX);
	l->interpreter_next = field(t, FIELD_NEXT, OFFSET_MAX);
	l->interpreter_threads = field(t, FIELD_THREADS, OFFSET_MAX);
	l->thread_next = field(t, f->thread_next, PYTHON_STATE_BYTES);
	l->thread_frame = field(t, f->thread_frame, PYTHON_STATE_BYTES);
	l->thread_id = field(t, f->thread_id, PYTHON_STATE_BYTES);
	l->thread_chunk = field(t, f->thread_chunk, PYTHON_STATE_BYTES);
	l->frame_previous = field(t, f->frame + 1, PYTHON_FRAME_BYTES);
	l->frame_code = field(t, f->frame + 2, PYTHON_FRAME_BYTES);
	l->frame_instruction = field(t, f->frame + 3, PYTHON_FRAME_BYTES);
	l->frame_locals = field(t, f->frame + 4, PYTHON_FRAME_BYTES);
	l->frame_owner = field(t, f->frame + 5, PYTHON_FRAME_BYTES);
	l->code_file = field(t, f->code + 1, PYTHON_CODE_BYTES);
	l->code_name = field(t, f->code + 3, PYTHON_CODE_BYTES);
	l->code_table = field(t, f->code + 4, PYTHON_CODE_BYTES);
	l->code_first_line = field(t, f->code + 5, PYTHON_CODE_BYTES);
	l->code_instructions = field(t, f->code + 9, PYTHON_CODE_BYTES);
	l->bytes_start = field(t, f->bytes_start, PYTHON_TEXT_BYTES);
	l->text_state = field(t, f->text + 1, PYTHON_TEXT_BYTES);
	l->text_length = field(t, f->text + 2, PYTHON_TEXT_BYTES);
	l->text_ascii = field(t, f->text + 3, PYTHON_TEXT_BYTES);
	l->text_other = l->text_ascii + 16;
}

static void grow(uint32_t *bytes, uint32_t offset, uint32_t size)
{
	if (offset != PYTHON_NO_OFFSET && offset + size > *bytes)
		*bytes = offset + size;
}

static int finish(struct python_layout *l, struct err *e)
{
	uint32_t text = 0;

	l->code_stack = l->code_first_line - 4;
	l->code_locals = l->code_first_line + 4;
	grow(&l->thread_bytes, l->thread_next, 8);
	grow(&l->thread_bytes, l->thread_id, 8);
	grow(&l->thread_bytes, l->thread_chunk, 16);
	grow(&l->thread_bytes, l->thread_cframe, 8);
	if (l->thread_cframe == PYTHON_NO_OFFSET)
		grow(&l->thread_bytes, l->thread_frame, 8);
	grow(&l->frame_bytes, l->frame_code, 8);
	grow(&l->frame_bytes, l->frame_previous, 8);
	grow(&l->frame_bytes, l->frame_instruction, 8);
	grow(&l->frame_bytes, l->frame_owner, 1);
	grow(&l->frame_bytes, l->frame_entry, 1);
	grow(&l->code_bytes, l->code_file, 8);
	grow(&l->code_bytes, l->code_name, 8);
	grow(&l->code_bytes, l->code_table, 8);
	grow(&l->code_bytes, l->code_locals, 4);
	grow(&text, l->text_length, 8);
	grow(&text, l->text_state, 4);
	grow(&text, l->bytes_length, 8);
	if (l->thread_bytes > PYTHON_STATE_BYTES || l->frame_bytes > PYTHON_FRAME_BYTES ||
	    l->code_bytes > PYTHON_CODE_BYTES || text > PYTHON_TEXT_BYTES ||
	    l->text_other > PYTHON_TEXT_BYTES || l->code_stack < OBJECT_BYTES ||
	    l->frame_locals % 8 || l->code_stack >= PYTHON_CODE_BYTES)
		return err_set(e, ERR_INVALID, "CPython 3.%d: its table of offsets is damaged",
			       l->minor);
	return 0;
}

int python_layout_load(struct python_layout *out, uint64_t version, const void *table, size_t len,
		       struct err *e)
{
	unsigned int major = version >> 24 & 0xff, minor = version >> 16 & 0xff;
	struct table t = { .bytes = table, .len = len };
	const struct fields *f = NULL;

	*out = common;
	out->minor = (int)minor;
	if (major != 3 || version >> 32)
		return err_set(e, ERR_INVALID, "no version of CPython 3: 0x%llx",
			       (unsigned long long)version);
	if ((version >> 4 & 0xf) < RELEASE_LEVEL)
		return err_set(e, ERR_UNSUPPORTED, "CPython 3.%u before its release", minor);
	if (minor == 11 || minor == 12) {
		(minor == 11 ? set_3_11 : set_3_12)(out);
		return finish(out, e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fields_by_minor); i++)
		if (fields_by_minor[i].minor == out->minor)
			f = &fields_by_minor[i];
	if (!f)
		return err_set(e, ERR_UNSUPPORTED, "unknown CPython 3.%u: 3.11 to 3.%d are known",
			       minor, fields_by_minor[ARRAY_SIZE(fields_by_minor) - 1].minor);
	if (len < sizeof(COOKIE) - 1 || memcmp(table, COOKIE, sizeof(COOKIE) - 1) ||
	    field(&t, FIELD_VERSION, UINT64_MAX) != (uint32_t)version)
		return err_set(e, ERR_INVALID, "CPython 3.%u: it has no table of offsets", minor);
	if (field(&t, FIELD_FREE_THREADED, UINT64_MAX))
		return err_set(e, ERR_UNSUPPORTED, "CPython 3.%u built without a GIL", minor);
	set_from_table(out, f, &t);
	if (t.bad)
		return err_set(e, ERR_INVALID, "CPython 3.%u: its table of offsets is damaged",
			       minor);
	return finish(out, e);
}
