/* SPDX-License-Identifier: Apache-2.0 */
/* The piecewise linear map of xs_rebase.knots, in picoseconds. Private to xspace/. */
#ifndef XSPACE_CURVE_H
#define XSPACE_CURVE_H

#include "xspace/xspace.h"

/* A 64 bit number of ns, in ps, needs more than 64 bits. */
__extension__ typedef __int128 ps_wide;

/* The rate of `to` against `from` between a knot and the next: slope / 2^shift. */
struct curve_slope {
	int64_t slope;
	unsigned int shift;
};

struct curve {
	const struct xs_knot *knots; /* borrowed */
	struct curve_slope *slopes; /* n - 1 */
	size_t n; /* 0: no curve */
	size_t last; /* the piece that was found last: the next event is likely to be in it */
};

/* ERR_INVALID for knots that break the rules of xspace.h. To be released also after a failure. */
MUST_CHECK int curve_init(struct curve *c, const struct xs_knot *knots, size_t n, struct err *e);
void curve_release(struct curve *c);

/* Monotonic: nested and adjacent events stay so. */
ps_wide curve_at(struct curve *c, ps_wide ps);

#endif
