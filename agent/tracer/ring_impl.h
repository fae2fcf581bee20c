/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by ring.c, which adds and drops records, and ring_cut.c, which reads them. */
#ifndef AGENT_TRACER_RING_IMPL_H
#define AGENT_TRACER_RING_IMPL_H

#include "agent/tracer/ring.h"

#define RING_FILE_PAGE 4096 /* unit of a hole in the file */

/* Memory of one chunk. */
struct ring_block {
	unsigned int refs; /* the ring's and the cuts' */
	size_t cap;
	_Alignas(8) uint8_t data[];
};

struct ring_file {
	unsigned int refs; /* the ring's and the extents' */
	int fd;
	uint64_t end;
};

/* A chunk in the file. */
struct ring_extent {
	unsigned int refs; /* the ring's and the cuts' */
	struct ring_file *file;
	uint64_t at;
	size_t len;
};

struct ring_chunk {
	struct ring_block *block; /* either `block` or `extent` is set */
	struct ring_extent *extent;
	size_t used, n; /* bytes, records */
	int64_t first_ns, last_ns; /* oldest and newest time of its records */
	int64_t latest_ns; /* newest time of this chunk and all before it */
	int64_t opened_ns; /* latest_ns of the ring when the chunk was made */
	bool sorted; /* its records are in order of time */
};

struct ring_hold_entry {
	struct ring_hold hold;
	uint64_t lost;
	struct ring_hold_entry *next;
};

struct ring {
	struct ring_limits limits;
	uint64_t max_file_bytes;
	size_t record_bytes, chunk_bytes;
	int64_t late_ns;
	int64_t begin_ns, latest_ns;
	struct ring_chunk *chunks; /* oldest first; those in the file come first */
	size_t n, n_filed, cap;
	uint64_t bytes, file_bytes;
	struct ring_loss *gaps; /* RING_LOSSES_MAX; oldest first */
	size_t n_gaps;
	struct ring_hold_entry *holds;
	struct ring_file *file; /* NULL while nothing is in it */
};

static inline size_t ring_round8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static inline uint64_t ring_whole_pages(size_t len)
{
	return (len + RING_FILE_PAGE - 1) / RING_FILE_PAGE * RING_FILE_PAGE;
}

/* ring_cut.c; NULL is fine. */
void ring_block_unref(struct ring_block *b);
void ring_file_unref(struct ring_file *f);
void ring_extent_unref(struct ring_extent *x);

#endif
