/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a line in order, in bounded memory. A line that has more of them than are held at once is read
 * several times: each pass takes those that follow the ones taken before. Private to xspace/tvx/.
 */
#ifndef XSPACE_TVX_LINE_H
#define XSPACE_TVX_LINE_H

#include "xspace/tvx/decode.h"
#include "xspace/tvx/names.h"
#include "xspace/tvx/tvx.h"
#include "xspace/wire.h"

/* An event of a line, before it has a row. */
struct line_event {
	int64_t start_ps;
	uint64_t length_ps;
	uint64_t source; /* where it is in the XSpace */
	uint64_t extra; /* the stat `flow`, 0 = none; of a counter's sample: the bits of a double */
	uint32_t name;
};

/* Of a line its reader is told: */
struct line_head {
	const struct wire_field *field;
	int64_t line_ns;
	struct event_wants wants;
	const struct number_map *names; /* of the plane: metadata id -> name */
	uint32_t unnamed;
};

/* Events of lines that were read one after the other. */
struct line_events {
	struct line_event *items;
	size_t n, cap;
};

struct line_reader {
	struct wire *w;
	const struct tvx_build *how; /* or NULL */
	struct line_head head;
	struct line_events *into;
	struct line_event *events,
		*scratch; /* events: those of this pass, behind the n of `into` */
	size_t n, cap, n_scratch;
	uint64_t from,
		skipped; /* where this pass begins, and the next one; skipped == UINT64_MAX: all are taken */
	bool is_again; /* not the first pass */
	bool has_limit; /* `events` is full: what follows `limit` is for a later pass */
	struct line_event last, limit;
	uint64_t untimed, unplaced; /* aggregates; events whose time is out of range */
};

size_t line_held_max(const struct tvx_build *how); /* events of a line that are held at once */

void line_begin(struct line_reader *l, const struct line_head *head);

/*
 * Adds the next events, in order: by start, the longer one first; of counters by name, then by start. Equal ones stay in
 * their order. *n says how many; 0: there are no more.
 */
MUST_CHECK int line_next(struct line_reader *l, struct line_events *into, size_t *n, struct err *e);

bool line_has_more(const struct line_reader *l); /* after a line_next() */
void line_release(struct line_reader *l);

#endif
