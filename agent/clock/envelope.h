/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of the estimator: what a set of one-sided bounds proves about the offset at a time,
 * if the offset moves no faster than a given pace. Pure; nanoseconds in double, counted from an
 * origin close by that the caller picks (see struct clock_history).
 */
#ifndef AGENT_CLOCK_ENVELOPE_H
#define AGENT_CLOCK_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* a bound further away than this proves too little, because of drift */
#define ENVELOPE_REACH_NS 5e9

/* At host time x the offset is at least v (from a request), or at most v (from a reply). */
struct bound {
	double x, v;
};

/* The tightest bound of each 10 ms, in order of time. */
struct bounds {
	struct bound *at;
	size_t n, cap;
};

/* Per ns the offset changes by `rate`, plus or minus at most `drift`. */
struct pace {
	double rate, drift;
};

struct interval {
	double lo, hi; /* lo > hi: the bounds and the pace contradict each other */
};

/*
 * `sign` is +1 for bounds from below, -1 for bounds from above. A bound replaces a looser one of
 * its 10 ms; `rate` is the known part of the rate, used to compare bounds of different times.
 * Bounds may come in any order of time.
 */
void bounds_add(struct bounds *b, struct bound new, int sign, double rate);
void bounds_free(struct bounds *b);
void bounds_expire(struct bounds *b, double before);
size_t bounds_from(const struct bounds *b, double x); /* index of the first bound at or after x */
/* The same, quickly if it is close to this index, which may be any. */
size_t bounds_from_near(const struct bounds *b, double x, size_t near);

/* The bounds that count at x: indices [from, to) of each kind. */
struct envelope {
	double x;
	uint32_t low_from, low_to, high_from, high_to;
};

/* Finds the bounds within 5 s of x; near the first or the last bound, those within 10 s of it; in a gap, also the
 * nearest ones on both sides. Needs bounds of both kinds. */
struct envelope envelope_near(const struct bounds *low, const struct bounds *high, double x);

/* The interval in which the offset at that x certainly lies. */
struct interval envelope_interval(const struct bounds *low, const struct bounds *high,
				  const struct envelope *e, struct pace p);

/* Both at once. False without bounds of both kinds. */
bool envelope_at(const struct bounds *low, const struct bounds *high, double x, struct pace p,
		 struct interval *out);

/* Whether b lies on the line from a to c or inside the convex hull, so that it is no corner. `sign`: 1 for the hull
 * above the bounds, -1 for the hull below them. */
static inline bool bound_is_inside_hull(struct bound a, struct bound b, struct bound c, int sign)
{
	return sign * ((b.v - a.v) * (c.x - a.x) - (c.v - a.v) * (b.x - a.x)) <= 0;
}

/* The best guess at x if delays vary alike in both directions: the middle between the line closest above the
 * lower bounds and the line closest below the upper bounds. Where the offset bends, these are chords: the middle is
 * corrected by how far chords of that length are from a parabola that bends as the middles 10 s before and after do. False
 * for too few bounds. */
bool envelope_line(const struct bounds *low, const struct bounds *high, double x, double *v);

#endif
