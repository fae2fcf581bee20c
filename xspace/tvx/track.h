/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tracks: rows, levels, blocks, totals. Private to xspace/tvx/. */
#ifndef XSPACE_TVX_TRACK_H
#define XSPACE_TVX_TRACK_H

#include "xspace/tvx/format.h"
#include "xspace/tvx/line.h"
#include "xspace/tvx/names.h"

/* A table that grows; its items are the file's structs. */
struct table {
	void *items;
	size_t n, cap;
};

void *table_add(struct table *t, size_t size); /* a zeroed item of that size */

/* What is written so far, and the tables behind it. */
struct tvx_writer {
	const struct xs_sink *sink;
	uint64_t source_bytes; /* of the XSpace */
	uint64_t at; /* bytes written */
	struct buf scratch;
	struct table planes, tracks, totals, flows, levels, blocks;
	struct names names;
	uint32_t *total_of; /* by name: 1 + its newest total; 0 = none yet */
	size_t n_total_of;
	uint64_t flows_left_out;
};

MUST_CHECK int tvx_write(struct tvx_writer *w, const void *data, size_t len, struct err *e);
void tvx_writer_release(struct tvx_writer *w);

/* tables.c: ends the index, whose blocks are all written. */
MUST_CHECK int tvx_write_tables(struct tvx_writer *w, struct err *e);

struct track_writer;

/*
 * Begins a track. The caller has set name, plane, kind, line_id, untimed and unplaced in `head`; the rest becomes what
 * the events say. The n events are the track's first ones, not added yet; `is_all`: there are no others.
 */
struct track_writer *track_begin(struct tvx_writer *w, const struct tvx_track *head,
				 const struct line_event *events, size_t n, bool is_all,
				 struct err *e);

/* Adds events in the order of line_next(). */
MUST_CHECK int track_add(struct track_writer *t, const struct line_event *events, size_t n);

/* Frees `t`. Without an error so far the track is in the tables then; returns rc, or what failed at the end. */
MUST_CHECK int track_end(struct track_writer *t, int rc);

#endif
