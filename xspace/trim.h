/* SPDX-License-Identifier: Apache-2.0 */
/* What a window and knots make of one event. Private to xspace/; the rules are in xspace.h. */
#ifndef XSPACE_TRIM_H
#define XSPACE_TRIM_H

#include "xspace/curve.h"
#include "xspace/splice.h"

struct trim {
	int64_t line_ns; /* the line's new time, before it is brought to 0 */
	int64_t source_ns; /* what the map gave, if there is a curve */
	int64_t window_ns; /* 0 = none */
	struct curve *curve; /* NULL: events move with their line */
};

/* The line's time as written: with a window, none begins before 0. */
static inline int64_t trim_line_ns(const struct trim *t)
{
	return t->window_ns && t->line_ns < 0 ? 0 : t->line_ns;
}

enum trim_fate { TRIM_KEEP, TRIM_DROP, TRIM_EDIT };

struct trim_event {
	enum trim_fate fate;
	bool clipped;
	uint64_t len; /* of the body written */
	struct splice splices[2]; /* TRIM_EDIT: by position */
	size_t n_splices;
};

/* Looks into the event; `out` is good for a second look with the same answer. */
MUST_CHECK int trim_judge(const struct trim *t, struct wire *w, const struct wire_field *event,
			  struct trim_event *out, struct err *e);

#endif
