/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Least size of a window: a field's tag and length always fit. */
#define WINDOW_MIN     64
#define WINDOW_DEFAULT (1 << 20)

/* Reads little after a jump: the walk is likely to jump again. */
#define AHEAD_MIN 4096

void wire_open(struct wire *w, const struct xs_source *src)
{
	size_t cap = src->window_bytes ? src->window_bytes : WINDOW_DEFAULT;

	*w = (struct wire){ .src = src };
	if (src->memory || !src->size) {
		w->data = src->memory;
		w->len = src->memory ? (size_t)src->size : 0;
		return;
	}
	w->window_cap = cap < WINDOW_MIN ? WINDOW_MIN : cap;
	w->window = xmalloc(w->window_cap);
	w->data = w->window;
}

void wire_close(struct wire *w)
{
	free(w->window);
	*w = (struct wire){ 0 };
}

/* How much to read at `offset`: grows while the reads are sequential. */
static size_t read_size(struct wire *w, uint64_t offset, size_t need)
{
	bool sequential = w->len && offset >= w->base && offset <= w->base + w->len;
	uint64_t left = w->src->size - offset;

	w->ahead = sequential ? w->ahead * 4 : AHEAD_MIN;
	if (w->ahead > w->window_cap)
		w->ahead = w->window_cap;
	need = need > w->ahead ? need : w->ahead;
	return need < left ? need : (size_t)left;
}

int wire_fill(struct wire *w, uint64_t offset, size_t need, struct err *e)
{
	size_t size, keep = 0;
	int rc;

	if (!w->src || w->src->memory || offset > w->src->size || need > w->src->size - offset)
		return err_set(e, ERR_INVALID, "at byte %" PRIu64 ": the input ends too early",
			       offset);
	if (need > XS_MAX_SPAN)
		return err_set(e, ERR_LIMIT,
			       "at byte %" PRIu64 ": %zu bytes in one piece, limit %d", offset,
			       need, XS_MAX_SPAN);
	size = read_size(w, offset, need);
	if (size > w->window_cap) {
		w->window = xrealloc(w->window, size);
		w->data = w->window;
		w->window_cap = size;
	}
	if (offset >= w->base && offset - w->base < w->len) {
		keep = w->len - (size_t)(offset - w->base);
		memmove(w->window, w->window + (offset - w->base), keep);
	}
	w->base = offset;
	w->len = keep;
	rc = w->src->read(w->src->arg, offset + keep, w->window + keep, size - keep, e);
	if (!rc)
		w->len = size;
	return rc;
}

struct wire_field wire_root(const struct xs_source *src)
{
	return (struct wire_field){ .end = src->size, .value = src->size, .type = WIRE_LEN };
}

/* The length of the varint at p (10 bytes are readable), or 0 if it is longer than `max`. */
static size_t varint_at(const uint8_t *p, size_t max, uint64_t *out)
{
	uint64_t v = 0;

	for (size_t i = 0; i < max; i++) {
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i); /* drops the upper bits of the 10th byte */
		if (p[i] < 0x80) {
			*out = v;
			return i + 1;
		}
	}
	return 0;
}

static uint64_t little_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

/* WIRE_LOOKAHEAD readable bytes from `at`: the source's or, near its end, a padded copy. */
static int look_ahead(struct wire *w, uint64_t at, uint64_t end, uint8_t tmp[WIRE_LOOKAHEAD],
		      const uint8_t **out, struct err *e)
{
	size_t need = end - at < WIRE_LOOKAHEAD ? (size_t)(end - at) : WIRE_LOOKAHEAD;
	int rc;

	if (at >= w->base && at - w->base < w->len && w->len - (at - w->base) >= WIRE_LOOKAHEAD) {
		*out = w->data + (at - w->base);
		return 0;
	}
	rc = wire_peek(w, at, need, out, e);
	if (rc || need == WIRE_LOOKAHEAD)
		return rc;
	/* the zeros end a varint that the source cuts; decode_value() then finds that it is too long */
	memset(tmp, 0, WIRE_LOOKAHEAD);
	memcpy(tmp, *out, need);
	*out = tmp;
	return 0;
}

static int refuse(uint64_t at, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID, "at byte %" PRIu64 ": %s", at, why);
}

/* Reads the value after the tag, `head` bytes after f->at. */
static int decode_value(struct wire_field *f, const uint8_t *p, size_t head, uint64_t end,
			struct err *e)
{
	size_t n;

	switch (f->type) {
	case WIRE_VARINT:
	case WIRE_LEN:
		n = varint_at(p + head, 10, &f->value);
		if (!n)
			return refuse(f->at, "a varint longer than 10 bytes", e);
		break;
	case WIRE_I64:
	case WIRE_I32:
		n = f->type == WIRE_I64 ? 8 : 4;
		f->value = little_endian(p + head, n);
		break;
	default:
		return refuse(f->at, f->type < WIRE_I32 ? "a group" : "an unknown wire type", e);
	}
	if (head + n > end - f->at)
		return refuse(f->at, "a field runs past its parent", e);
	f->body = f->at + head;
	f->end = f->body + n;
	if (f->type != WIRE_LEN)
		return 0;
	f->body = f->end;
	if (f->value > end - f->body)
		return err_set(e, ERR_INVALID,
			       "at byte %" PRIu64 ": length %" PRIu64 " runs past its parent",
			       f->at, f->value);
	f->end += f->value;
	return 0;
}

int wire_next_slow(struct wire_walk *walk, struct wire_field *f, struct err *e)
{
	uint8_t tmp[WIRE_LOOKAHEAD];
	const uint8_t *p;
	uint64_t tag = 0;
	size_t head;
	int rc;

	if (walk->next >= walk->end)
		return 0;
	f->at = walk->next;
	rc = look_ahead(walk->w, f->at, walk->end, tmp, &p, e);
	if (rc)
		return rc;
	head = varint_at(p, 5, &tag);
	if (!head || tag > UINT32_MAX)
		return refuse(f->at, "a tag longer than 32 bits", e);
	f->number = (uint32_t)(tag >> 3);
	f->type = tag & 7;
	if (!f->number)
		return refuse(f->at, "field number 0", e);
	rc = decode_value(f, p, head, walk->end, e);
	if (rc)
		return rc;
	if (!wire_type_fits(walk->schema, f->number, f->type))
		return err_set(e, ERR_INVALID,
			       "at byte %" PRIu64 ": field %" PRIu32 " has wire type %" PRIu32,
			       f->at, f->number, f->type);
	walk->next = f->end;
	return 1;
}
