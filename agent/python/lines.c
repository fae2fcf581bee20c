/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/lines.h"

#include "base/mem.h"
#include "base/reader.h"

/* Kinds of entries, in bits 3 to 6 of their first byte. Kinds below ONE_LINE stay on the line of the entry
 * before. */
enum { KIND_ONE_LINE = 10, KIND_NO_COLUMNS = 13, KIND_LONG = 14, KIND_NONE = 15 };

#define LINE_MAX (1 << 28)

/* Reads a number: six bits a byte, the lowest first; bit 6 says that another byte follows. */
static bool read_number(struct reader *r, uint32_t *out)
{
	unsigned int shift = 0;
	uint8_t b = 0x40;

	*out = 0;
	while (b & 0x40) {
		if (!reader_u8(r, &b) || shift > 30)
			return false;
		*out |= (uint32_t)(b & 0x3f) << shift;
		shift += 6;
	}
	return true;
}

/* The same with a sign, in the lowest bit. */
static bool read_delta(struct reader *r, int64_t *line)
{
	uint32_t v;

	if (!read_number(r, &v))
		return false;
	*line += v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
	return *line >= 0 && *line < LINE_MAX;
}

/* Reads the rest of an entry: the change of line; skips the columns. */
static bool read_rest(struct reader *r, unsigned int kind, int64_t *line)
{
	const uint8_t *columns;
	uint32_t skipped;

	if (kind == KIND_NONE)
		return true;
	if (kind == KIND_LONG)
		return read_delta(r, line) && read_number(r, &skipped) &&
		       read_number(r, &skipped) && read_number(r, &skipped);
	if (kind == KIND_NO_COLUMNS)
		return read_delta(r, line);
	if (kind < KIND_ONE_LINE)
		return reader_take(r, 1, &columns);
	*line += kind - KIND_ONE_LINE;
	return reader_take(r, 2, &columns);
}

static void add_line(struct python_lines *out, uint32_t instruction, uint32_t line)
{
	if (out->n && out->v[out->n - 1].line == line)
		return;
	if (!(out->n & (out->n - 1)))
		out->v = xrealloc(out->v, (out->n ? 2 * out->n : 1) * sizeof(*out->v));
	out->v[out->n++] = (struct python_line){ instruction, line };
}

void python_lines_decode(struct python_lines *out, const void *table, size_t len,
			 uint32_t first_line)
{
	struct reader r = reader_of(table, len);
	int64_t line = first_line;
	uint32_t instruction = 0;
	uint8_t head;

	*out = (struct python_lines){ 0 };
	while (reader_u8(&r, &head) && head & 0x80) {
		unsigned int kind = head >> 3 & 0xf;

		if (!read_rest(&r, kind, &line))
			return;
		add_line(out, instruction, kind == KIND_NONE ? 0 : (uint32_t)line);
		instruction += 2 * ((head & 7U) + 1);
	}
}

void python_lines_release(struct python_lines *lines)
{
	free(lines->v);
	*lines = (struct python_lines){ 0 };
}

uint32_t python_lines_find(const struct python_lines *lines, int32_t instruction,
			   uint32_t first_line)
{
	size_t low = 0, high = lines->n;
	uint32_t line;

	if (instruction < 0)
		return first_line;
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (lines->v[mid].instruction <= (uint32_t)instruction)
			low = mid + 1;
		else
			high = mid;
	}
	line = low ? lines->v[low - 1].line : 0;
	return line ? line : first_line;
}
