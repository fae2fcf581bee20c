/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of xspace/ share: sources with small windows, random XSpaces, unpacking. */
#ifndef TESTS_XSPACE_SAMPLES_H
#define TESTS_XSPACE_SAMPLES_H

#include <stdint.h>

#include "base/buf.h"
#include "proto/tensorflow/xplane.pb-c.h"
#include "xspace/xspace.h"

/* The bytes of `memory` through a window of that size; `memory` must outlive it. */
struct xs_source windowed(const struct xs_source *memory, size_t window_bytes);

static inline struct xs_source source_of(const struct buf *b)
{
	return xs_source_memory(b->data, b->len);
}

/* xorshift: the same numbers from the same seed everywhere. */
struct random {
	uint64_t state;
};
uint64_t random_next(struct random *r);
uint64_t random_below(struct random *r, uint64_t n);

/* A seed from TUTTI_SEED or from the kernel; printed, so that a failure can be had again. */
struct random random_seeded(void);

/*
 * A well-formed XSpace of a few planes, lines and events, as no builder would write it: fields in any
 * order, singular fields repeated, unknown fields, absent and negative numbers, padded lengths.
 * Lines are near 0 with events of up to `span_ns`.
 */
void random_xspace(struct random *r, int64_t span_ns, struct buf *out);

/* Unpacks or ends the test. Free with tensorflow__profiler__xspace__free_unpacked(). */
Tensorflow__Profiler__XSpace *unpack(const struct buf *b);

/* Both are the same message, field by field; ends the test otherwise. */
void check_same(const Tensorflow__Profiler__XSpace *a, const Tensorflow__Profiler__XSpace *b);

/* Everything a reading visits, one line each, added to `out`: to hold two readings together. */
int dump(const struct xs_source *in, struct buf *out, struct err *e);

/* Adds one field: tests write wrong messages with these. */
void put_varint(struct buf *out, unsigned int field, uint64_t v);
void put_bytes(struct buf *out, unsigned int field, const void *data, size_t len);
void put_message(struct buf *out, unsigned int field, const struct buf *message);

#endif
