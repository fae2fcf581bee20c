/* SPDX-License-Identifier: Apache-2.0 */
/* Moves one event by the knots and cuts it to the window. Private to xspace/; the rules are in
 * xspace.h. */
#ifndef XSPACE_TRIM_H
#define XSPACE_TRIM_H

#include "xspace/curve.h"
#include "xspace/splice.h"

struct trim {
	int64_t line_ns; /* the line's new time, which may be below 0 */
	int64_t source_ns; /* result of the map, if there is a curve */
	int64_t window_ns; /* 0 = none */
	int64_t cut_ns; /* events are cut there, and then moved into the window */
	struct curve *curve; /* NULL: events move with their line */
};

/* The time that is written for the line; with a window it is not below 0. */
static inline int64_t trim_line_ns(const struct trim *t)
{
	return t->window_ns && t->line_ns < 0 ? 0 : t->line_ns;
}

enum trim_result { TRIM_KEEP, TRIM_DROP, TRIM_EDIT };

struct trim_event {
	enum trim_result result;
	bool clipped;
	uint64_t len; /* of the written body */
	struct splice splices[2]; /* TRIM_EDIT: by position */
	size_t n_splices;
};

/* Decodes the event; a second call with the same event gives the same result. */
MUST_CHECK int trim_decide(const struct trim *t, struct wire *w, const struct wire_field *event,
			   struct trim_event *out, struct err *e);

#endif
