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

/* How far into its line an event may reach to be kept as it is, in ps; 0 = each event is decided alone. */
static inline int64_t trim_inside_ps(const struct trim *t)
{
	int64_t ns = t->cut_ns < t->window_ns ? t->cut_ns : t->window_ns;

	return !t->window_ns || t->curve || t->line_ns < 0 || t->line_ns >= ns
		       ? 0
		       : (ns - t->line_ns) * 1000;
}

/* Whether trim_decide() would keep the event as it is: seen without decoding it, if it is written as most are. */
bool trim_is_inside(int64_t inside_ps, const struct wire *w, const struct wire_field *event);

/* Decodes the event; a second call with the same event gives the same result. */
MUST_CHECK int trim_decide(const struct trim *t, struct wire *w, const struct wire_field *event,
			   struct trim_event *out, struct err *e);

#endif
