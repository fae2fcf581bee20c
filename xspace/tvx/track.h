/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tracks: rows, levels, blocks, totals. Private to xspace/tvx/. */
#ifndef XSPACE_TVX_TRACK_H
#define XSPACE_TVX_TRACK_H

#include "xspace/tvx/format.h"
#include "xspace/tvx/names.h"

/* An event of a line, before it has a row. */
struct line_event {
	int64_t start_ps;
	uint64_t length_ps;
	uint64_t source;
	uint64_t extra; /* the stat `flow`, 0 = none; of a counter's sample: the bits of a double */
	uint32_t name;
};

/* By start, the longer one first; equal ones stay in their order. */
void line_events_sort(struct line_event *events, size_t n);

/* A table that grows; its items are the file's structs. */
struct table {
	void *items;
	size_t n, cap;
};

void *table_add(struct table *t, size_t size); /* a zeroed item of that size */

/* What is written so far, and the tables behind it. */
struct tvx_writer {
	const struct xs_sink *sink;
	uint64_t at; /* bytes written */
	struct buf scratch;
	struct table planes, tracks, totals, flows, levels, blocks;
	struct names names;
	uint64_t flows_left_out;
};

MUST_CHECK int tvx_write(struct tvx_writer *w, const void *data, size_t len, struct err *e);
void tvx_writer_release(struct tvx_writer *w);

/*
 * Adds a track with n sorted events. The caller has set name, plane, kind, line_id, untimed and unplaced in `head`;
 * the rest becomes what the events say.
 */
MUST_CHECK int track_write(struct tvx_writer *w, const struct tvx_track *head,
			   const struct line_event *events, size_t n, struct err *e);

#endif
