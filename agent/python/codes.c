/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/codes.h"

#include <string.h>

#include "agent/python/lines.h"
#include "base/clean_text.h"
#include "base/mem.h"

#define SLOTS	      (2 * PYTHON_CODES_MAX)
#define TEXT_MAX      300 /* characters of a text that are kept; of a longer one, the last ones */
#define TEXT_LONGEST  (1 << 20) /* an object that claims a longer text is no string */
#define TABLE_MAX     (64U << 10) /* bytes of a table of locations */
#define TYPE_OFFSET   8
#define LENGTH_OFFSET 16 /* where a code object has the number of its instructions */

/* The part of a code object that is compared, because another object may be made at the same address. */
struct head {
	uint64_t type, length, file, name, table;
	uint32_t first_line, stack, locals, zero;
};

struct code {
	uint64_t address;
	struct head head;
	uint32_t function;
	struct python_lines lines;
};

struct python_codes {
	struct code *v;
	size_t n, cap;
	uint32_t slots[SLOTS]; /* 1 + index by address; 0 = free */
};

struct python_codes *python_codes_new(void)
{
	return xcalloc(1, sizeof(struct python_codes));
}

void python_codes_forget(struct python_codes *c)
{
	for (size_t i = 0; i < c->n; i++)
		python_lines_release(&c->v[i].lines);
	c->n = 0;
	memset(c->slots, 0, sizeof(c->slots));
}

void python_codes_free(struct python_codes *c)
{
	if (!c)
		return;
	python_codes_forget(c);
	free(c->v);
	free(c);
}

/* The slot that has the address, or the free one where it belongs. */
static uint32_t *slot_of(struct python_codes *c, uint64_t address)
{
	size_t i = (size_t)(address >> 4) * 2654435761U % SLOTS;

	while (c->slots[i] && c->v[c->slots[i] - 1].address != address)
		i = (i + 1) % SLOTS;
	return &c->slots[i];
}

/* ---- reading one ---- */

struct target {
	const struct python_memory *memory;
	const struct python_layout *layout;
};

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | (c >> 18 & 7));
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

struct text {
	char s[TEXT_MAX * 4 + 1];
	uint64_t type; /* address of its object */
};

/* Appends the characters of a compact string object; `kind` is the size of a character. */
static bool read_text(const struct target *t, uint64_t address, struct text *out)
{
	const struct python_layout *l = t->layout;
	uint8_t head[PYTHON_TEXT_BYTES] = { 0 }, chars[TEXT_MAX * 4];
	char utf8[TEXT_MAX * 4 + 1];
	uint64_t length, at, n;
	uint32_t state, kind;
	size_t used = 0;

	if (python_memory_get_up_to(t->memory, address, head, l->text_other) < l->text_ascii)
		return false;
	out->type = python_u64(head, TYPE_OFFSET);
	length = python_u64(head, l->text_length);
	state = python_u32(head, l->text_state);
	kind = state >> 2 & 7;
	if (!(state & 1 << 5) || (kind != 1 && kind != 2 && kind != 4) || length > TEXT_LONGEST)
		return false;
	n = length < TEXT_MAX ? length : TEXT_MAX;
	at = address + (state & 1 << 6 ? l->text_ascii : l->text_other) + (length - n) * kind;
	if (n && !python_memory_get(t->memory, at, chars, (size_t)n * kind))
		return false;
	for (size_t i = 0; i < n; i++) {
		uint32_t c = 0;

		for (uint32_t b = kind; b > 0; b--)
			c = c << 8 | chars[i * kind + b - 1];
		used += put_utf8(utf8 + used, c < 0x110000 ? c : '?');
	}
	clean_text(out->s, sizeof(out->s), utf8, used);
	return true;
}

static bool read_lines(const struct target *t, const struct head *head, struct python_lines *out)
{
	const struct python_layout *l = t->layout;
	uint8_t bytes[PYTHON_TEXT_BYTES] = { 0 }, *table;
	uint64_t length;
	size_t got;

	if (python_memory_get_up_to(t->memory, head->table, bytes, l->bytes_start) < l->bytes_start)
		return false;
	length = python_u64(bytes, l->bytes_length);
	if (length > TABLE_MAX)
		length = TABLE_MAX;
	table = xmalloc((size_t)length + 1);
	got = python_memory_get_up_to(t->memory, head->table + l->bytes_start, table,
				      (size_t)length);
	python_lines_decode(out, table, got, head->first_line);
	free(table);
	return true;
}

/* Reads a code object; NULL if the bytes are not one. */
static const struct code *add_code(struct python_codes *c, const struct target *t,
				   struct python_functions *fs, uint64_t address,
				   const struct head *head)
{
	struct python_lines lines;
	struct text name, file;
	uint32_t *slot;

	if (!read_text(t, head->name, &name) || !name.s[0] || !read_text(t, head->file, &file) ||
	    name.type != file.type || !read_lines(t, head, &lines))
		return NULL;
	if (c->n == PYTHON_CODES_MAX)
		python_codes_forget(c);
	slot = slot_of(c, address);
	if (!*slot) {
		if (c->n == c->cap) {
			c->cap = c->cap ? 2 * c->cap : 64;
			c->v = xrealloc(c->v, c->cap * sizeof(*c->v));
		}
		*slot = (uint32_t)++c->n;
		c->v[*slot - 1].lines = (struct python_lines){ 0 };
	}
	python_lines_release(&c->v[*slot - 1].lines);
	c->v[*slot - 1] = (struct code){
		.address = address,
		.head = *head,
		.function = python_functions_add(fs, name.s, file.s, head->first_line),
		.lines = lines,
	};
	return &c->v[*slot - 1];
}

/* ---- those of a stack ---- */

static struct head head_of(const struct python_layout *l, const uint8_t *bytes)
{
	return (struct head){
		.type = python_u64(bytes, TYPE_OFFSET),
		.length = python_u64(bytes, LENGTH_OFFSET),
		.file = python_u64(bytes, l->code_file),
		.name = python_u64(bytes, l->code_name),
		.table = python_u64(bytes, l->code_table),
		.first_line = python_u32(bytes, l->code_first_line),
		.stack = python_u32(bytes, l->code_stack),
		.locals = python_u32(bytes, l->code_locals),
	};
}

/* Copies the heads of the frames' code objects; frames in a row with the same object share one copy. `at`
 * maps frames to heads. */
static uint8_t *copy_heads(const struct target *t, const struct python_stack *stack, uint16_t *at)
{
	const struct python_layout *l = t->layout;
	struct python_range ranges[PYTHON_FRAMES_MAX];
	uint8_t *heads = xcalloc(stack->n, l->code_bytes);
	size_t n = 0;

	for (size_t i = 0; i < stack->n; i++) {
		if (!i || stack->v[i].code != stack->v[i - 1].code) {
			ranges[n] = (struct python_range){ stack->v[i].code,
							   heads + n * l->code_bytes,
							   l->code_bytes };
			n++;
		}
		at[i] = (uint16_t)(n - 1);
	}
	if (t->memory->read(t->memory->arg, ranges, n) == (int64_t)(n * l->code_bytes))
		return heads;
	free(heads);
	return NULL;
}

/* Checks that frames on the thread's stack lie one behind the other: each begins where its caller's frame
 * ends. */
static bool frames_meet(const struct python_layout *l, const struct python_frame *inner,
			const struct python_frame *outer, const struct head *head)
{
	uint64_t words = (uint64_t)head->locals + head->stack + l->frame_locals / 8;

	return inner->at == outer->at + 8 * words;
}

bool python_codes_name(struct python_codes *c, const struct python_memory *memory,
		       const struct python_layout *layout, struct python_functions *fs,
		       struct python_stack *stack)
{
	const struct target t = { memory, layout };
	const struct python_frame *inner = NULL;
	uint16_t at[PYTHON_FRAMES_MAX];
	uint8_t *heads;
	bool ok = true;

	if (!stack->n)
		return true;
	heads = copy_heads(&t, stack, at);
	ok = heads;
	for (size_t i = 0; ok && i < stack->n; i++) {
		struct head head = head_of(layout, heads + at[i] * (size_t)layout->code_bytes);
		struct python_frame *f = &stack->v[i];
		uint32_t slot = *slot_of(c, f->code);
		const struct code *code = slot ? &c->v[slot - 1] : NULL;

		if (!code || memcmp(&code->head, &head, sizeof(head)))
			code = add_code(c, &t, fs, f->code, &head);
		ok = code && f->instruction < 2 * (int64_t)head.length;
		if (ok && f->in_chunk) {
			ok = !inner || frames_meet(layout, inner, f, &head);
			inner = f;
		}
		if (ok) {
			f->function = code->function;
			f->line = python_lines_find(&code->lines, f->instruction, head.first_line);
		}
	}
	free(heads);
	return ok;
}
