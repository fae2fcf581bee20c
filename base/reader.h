/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads foreign bytes: every step checks before it moves; on failure it returns false and leaves the
 * position unchanged. No function allocates.
 */
#ifndef BASE_READER_H
#define BASE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
	const uint8_t *p; /* next byte */
	const uint8_t *end; /* one past the last */
};

static inline struct reader reader_of(const void *data, size_t len)
{
	const uint8_t *p = data;

	return (struct reader){ p, p ? p + len : p };
}

static inline size_t reader_left(const struct reader *r)
{
	return (size_t)(r->end - r->p);
}

/* Borrows the next n bytes. */
static inline bool reader_take(struct reader *r, size_t n, const uint8_t **out)
{
	if (n > reader_left(r))
		return false;
	*out = r->p;
	r->p += n;
	return true;
}

static inline bool reader_u8(struct reader *r, uint8_t *out)
{
	if (r->p == r->end)
		return false;
	*out = *r->p++;
	return true;
}

/* Network byte order. */
static inline bool reader_be(struct reader *r, size_t bytes, uint64_t *out)
{
	uint64_t v = 0;

	if (bytes > 8 || bytes > reader_left(r))
		return false;
	for (size_t i = 0; i < bytes; i++)
		v = v << 8 | *r->p++;
	*out = v;
	return true;
}

/* Little endian, as protobuf's fixed32 and fixed64. */
static inline bool reader_le(struct reader *r, size_t bytes, uint64_t *out)
{
	uint64_t v = 0;

	if (bytes > 8 || bytes > reader_left(r))
		return false;
	for (size_t i = 0; i < bytes; i++)
		v |= (uint64_t)r->p[i] << (8 * i);
	r->p += bytes;
	*out = v;
	return true;
}

/* Protobuf varint of at most 10 bytes; bits beyond the 64th are dropped, as protobuf does. */
static inline bool reader_varint(struct reader *r, uint64_t *out)
{
	const uint8_t *p = r->p;
	uint64_t v = 0;

	for (unsigned int shift = 0; shift < 70; shift += 7) {
		if (p == r->end)
			return false;
		v |= shift < 64 ? (uint64_t)(*p & 0x7f) << shift : 0;
		if (!(*p++ & 0x80)) {
			r->p = p;
			*out = v;
			return true;
		}
	}
	return false;
}

#endif
