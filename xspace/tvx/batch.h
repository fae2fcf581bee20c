/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From events to tracks, batch by batch: while one batch is read, the tracks of the one before are made, by a helper if
 * there is one. Lines come and their tracks are made in one order, so the index is the same with and without. Private to
 * xspace/tvx/.
 */
#ifndef XSPACE_TVX_BATCH_H
#define XSPACE_TVX_BATCH_H

#include "base/helper.h"
#include "xspace/tvx/track.h"

struct batch {
	struct line_events events;
	struct table runs; /* of struct batch_run */
};

/* Events of a line that were read together. */
struct batch_run {
	struct tvx_track head; /* as of track_begin(); of counters without the name */
	size_t n;
	bool is_first, is_last; /* of the line */
};

struct batches {
	struct tvx_writer
		*out; /* its planes and names are the reader's, the rest is the helper's */
	const struct tvx_build *how; /* or NULL */
	struct helper *helper; /* or NULL: a batch is made at once */
	struct batch filling;
	/* the helper's, until it is waited for: */
	struct batch making;
	struct track_writer *track; /* of a line that is not whole, or NULL */
	uint32_t counter; /* its name, if it is one of counters */
	bool has_lines; /* became whole since the last on_line() */
	int rc; /* of what failed first: nothing is made after it */
	struct err why;
};

void batches_open(struct batches *b, struct tvx_writer *out, const struct tvx_build *how);

/* The events are the last ones of b->filling.events. An error may be of lines before. */
MUST_CHECK int batches_add(struct batches *b, const struct batch_run *run, struct err *e);

/* Makes what was added; then the caller has all of `out`. */
MUST_CHECK int batches_flush(struct batches *b, struct err *e);
void batches_close(struct batches *b);

#endif
