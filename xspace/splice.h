/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the input with a few places changed. A `splicer` passes through the source once, forward: bytes
 * between two splices are copied verbatim. Private to xspace/.
 */
#ifndef XSPACE_SPLICE_H
#define XSPACE_SPLICE_H

#include <stdint.h>

#include "xspace/wire.h"

/* Replaces [at, until) of the source by `len` bytes. */
struct splice {
	uint64_t at, until;
	const uint8_t *bytes; /* NULL: they are in `own` */
	size_t len;
	uint8_t own[16];
};

/*
 * The splice that gives a varint field of a message the value v: at the field's last occurrence or, if it is
 * absent (field->end is 0), at the message's begin. Earlier occurrences stay, because readers take the last
 * one.
 */
struct splice splice_varint(const struct wire_field *field, const struct wire_field *message,
			    uint32_t number, uint64_t v);

/* Replaces tag and length of a message by those of one with a body of `len` bytes. */
struct splice splice_head(const struct wire_field *message, uint64_t len);

/* The growth of the output by this splice, in bytes. */
static inline int64_t splice_growth(const struct splice *s)
{
	return (int64_t)s->len - (int64_t)(s->until - s->at);
}

struct splicer {
	const struct xs_source *src;
	const struct xs_sink *out;
	uint64_t from; /* next byte of the source to be copied */
	uint64_t written; /* bytes so far, including staged ones */
	uint8_t *stage; /* bytes that the sink has not got yet */
	size_t staged;
};

void splicer_open(struct splicer *sp, const struct xs_source *src, const struct xs_sink *out);
void splicer_close(struct splicer *sp);

/* Copies up to s->at, writes the splice's bytes, continues at s->until. s->at is not before the end of the
 * last splice. */
MUST_CHECK int splicer_put(struct splicer *sp, const struct splice *s, struct err *e);

/* Copies up to `until`. */
MUST_CHECK int splicer_copy(struct splicer *sp, uint64_t until, struct err *e);

/* Continues at `until` and drops the bytes between. */
MUST_CHECK int splicer_cut(struct splicer *sp, uint64_t at, uint64_t until, struct err *e);

/* Writes bytes that are not of the source. */
MUST_CHECK int splicer_add(struct splicer *sp, const void *data, size_t len, struct err *e);

/* Writes the staged bytes to the sink. */
MUST_CHECK int splicer_flush(struct splicer *sp, struct err *e);

#endif
