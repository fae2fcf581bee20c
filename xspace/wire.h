/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking protobuf fields by their offset in a source of any size. Private to xspace/.
 *
 * A `wire` holds some bytes of the source: all of them if the source is in memory, else a window that
 * follows the walk. It has no position: every step names its offset, so a walk may enter a nested
 * message and the outer walk continues where it was.
 *
 *   struct wire_walk walk = wire_walk(w, &plane, schema_xplane);
 *   while ((rc = wire_next(&walk, &f, e)) > 0)
 *           if (f.number == XPLANE_LINES) ...
 *
 * Every length is checked against the enclosing message before it is used. Errors are ERR_INVALID for
 * bytes that are not an XSpace, or those of the source's `read`.
 */
#ifndef XSPACE_WIRE_H
#define XSPACE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "xspace/schema.h"
#include "xspace/xspace.h"

enum wire_type { WIRE_VARINT = 0, WIRE_I64 = 1, WIRE_LEN = 2, WIRE_I32 = 5 };

/* The tag byte of a field below 16. */
#define WIRE_TAG(number, type) ((uint8_t)((number) << 3 | (type)))

/* A tag takes at most 5 bytes, the varint behind it at most 10. */
#define WIRE_LOOKAHEAD 15

struct wire {
	const uint8_t *data; /* [base, base + len) of the source */
	uint64_t base;
	size_t len;
	const struct xs_source *src; /* NULL: `data` is everything */
	uint8_t *window; /* owned; NULL for memory */
	size_t window_cap;
	size_t ahead; /* bytes to read next time; grows while the walk is sequential */
};

void wire_open(struct wire *w, const struct xs_source *src);
void wire_close(struct wire *w);

/* Moves the window over [offset, offset + need); ERR_LIMIT above XS_MAX_SPAN. */
MUST_CHECK int wire_fill(struct wire *w, uint64_t offset, size_t need, struct err *e);

/* Points `*out` at `need` contiguous bytes, which must be inside the source. Valid until the next step
 * of this wire. */
MUST_CHECK static inline int wire_peek(struct wire *w, uint64_t offset, uint64_t need,
				       const uint8_t **out, struct err *e)
{
	int rc = 0;

	if (offset < w->base || need > w->len || offset - w->base > w->len - need)
		rc = wire_fill(w, offset, need, e);
	*out = rc ? NULL : w->data + (offset - w->base);
	return rc;
}

/* A wire over the current bytes of `w` that never moves: pointers into it stay valid until the next
 * step of `w`. */
static inline struct wire wire_hold(const struct wire *w)
{
	return (struct wire){ .data = w->data, .base = w->base, .len = w->len };
}

struct wire_field {
	uint64_t at; /* offset of the tag */
	uint64_t body; /* offset after the tag or, for WIRE_LEN, after the length */
	uint64_t end; /* offset after the field */
	uint64_t value; /* of a varint or fixed; WIRE_LEN: end - body */
	uint32_t number;
	uint32_t type;
};

/* A walk over the fields of one message. */
struct wire_walk {
	struct wire *w;
	const uint8_t *schema;
	uint64_t next, end;
};

static inline struct wire_walk wire_walk(struct wire *w, const struct wire_field *message,
					 const uint8_t *schema)
{
	return (struct wire_walk){ w, schema, message->body, message->end };
}

/* The whole source, as if it were a field. */
struct wire_field wire_root(const struct xs_source *src);

/* The general case of wire_next(). */
MUST_CHECK int wire_next_slow(struct wire_walk *walk, struct wire_field *f, struct err *e);

static inline bool wire_type_fits(const uint8_t *schema, uint32_t number, uint32_t type)
{
	return number >= SCHEMA_FIELDS || !schema[number] || schema[number] == 1 + type;
}

/* Skips consecutive fields of this number that are in the buffer, WIRE_LEN and shorter than 128 bytes;
 * returns how many it skipped. The number is below 16 and fits the walk's schema. */
static inline uint64_t wire_pass_short(struct wire_walk *walk, uint32_t number)
{
	const struct wire *w = walk->w;
	const uint8_t tag = WIRE_TAG(number, WIRE_LEN);
	const uint8_t *from, *p;
	uint64_t left, n = 0;

	if (walk->next < w->base || walk->next - w->base >= w->len)
		return 0;
	from = w->data + (walk->next - w->base);
	left = w->len - (walk->next - w->base);
	if (left > walk->end - walk->next)
		left = walk->end - walk->next;
	for (p = from; left >= 2 && p[0] == tag && p[1] < 0x80 && p[1] <= left - 2; n++) {
		uint64_t size = 2 + (uint64_t)p[1];

		p += size;
		left -= size;
	}
	walk->next += (uint64_t)(p - from);
	return n;
}

/* 1 and the next field, 0 at the message's end, or a negative error. */
MUST_CHECK static inline int wire_next(struct wire_walk *walk, struct wire_field *f, struct err *e)
{
	const struct wire *w = walk->w;
	uint64_t at = walk->next;

	/* Nearly all fields of a big XSpace are events: one byte of tag, one of length, in the window. */
	if (at >= w->base && w->len >= 2 && at - w->base <= w->len - 2 && walk->end - at >= 2) {
		const uint8_t *p = w->data + (at - w->base);
		uint32_t number = p[0] >> 3;

		if ((p[0] & 0x87) == WIRE_LEN && number && p[1] < 0x80 &&
		    p[1] <= walk->end - at - 2 && wire_type_fits(walk->schema, number, WIRE_LEN)) {
			*f = (struct wire_field){
				at, at + 2, at + 2 + p[1], p[1], number, WIRE_LEN
			};
			walk->next = f->end;
			return 1;
		}
	}
	return wire_next_slow(walk, f, e);
}

#endif
