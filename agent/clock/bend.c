/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/bend.h"

#include <math.h>
#include <string.h>

#include "agent/clock/arith.h"
#include "base/mem.h"

#define SIDE_MAX       40 /* the most bounds of one kind on one side of x: the closest ones */
#define SIDE_LEAST     3 /* at least so many, since fewer show little of the rate */
#define REACH_LEAST_NS 0.5e9
/* bounds this near give a first width of the interval, from which the reach follows: */
#define FIRST_REACH_NS 1e9
/* at the reach CLOCK_TURN_MAX has moved the offset by this many times half that width */
#define TURN_SHARE 2

/* ---- pruning ---- */

void bounds_prune(const struct bounds *b, int sign, struct bounds *out)
{
	double implied = -INFINITY; /* what the bounds before imply, then what those after imply */
	size_t kept = 0;

	out->n = 0;
	if (out->cap < b->n) {
		out->cap = b->n;
		out->at = xrealloc(out->at, out->cap * sizeof(*out->at));
	}
	for (size_t i = 0; i < b->n; i++) {
		double v = sign * b->at[i].v + CLOCK_RATE_MAX * b->at[i].x;

		if (v > implied)
			out->at[out->n++] = b->at[i];
		implied = larger(v, implied);
	}
	implied = -INFINITY;
	for (size_t i = out->n; i-- > 0;) {
		double v = sign * out->at[i].v - CLOCK_RATE_MAX * out->at[i].x;

		if (v > implied)
			out->at[out->n - ++kept] = out->at[i];
		implied = larger(v, implied);
	}
	memmove(out->at, out->at + out->n - kept, kept * sizeof(*out->at));
	out->n = kept;
}

/* ---- around a time ---- */

/* How much CLOCK_TURN_MAX can change the offset in that time. */
static double turn(double x)
{
	return CLOCK_TURN_MAX / 2 * x * x;
}

/* Which way the rate goes towards x, apart from the turn. A rate that rises is followed as one that falls, with offsets
 * and rates negated. */
enum way { FALLING, RISING };

/* A bound on one side of x. */
struct side_bound {
	double x; /* minus the distance */
	double bent[2]; /* for each way: v or -v, less what the turn can have added */
	/* what this bound and the closer ones prove at x, whatever the rate is; of lower bounds, negated */
	double any_rate;
};

/* Bounds of one kind on one side of x. */
struct side {
	const struct bound *closest; /* of `all` */
	size_t all;
	struct side_bound room[SIDE_MAX]; /* the furthest first */
	size_t filled; /* the last ones of the room */
	const struct side_bound *at; /* the n of them that are within reach */
	size_t n;
};

/* All bounds around x. Those after x are mirrored in time, so rates have the other sign there. */
struct around {
	double x;
	struct side low_before, high_before, low_after, high_after;
};

/* Begins both sides without bounds. A bound at x belongs to both. */
static void begin_sides(const struct bounds *b, double x, size_t *near, struct side *before,
			struct side *after)
{
	size_t first = bounds_from_near(b, x - 0.5, *near), end = first;

	*near = first;
	while (end < b->n && b->at[end].x < x + 0.5)
		end++;
	before->closest = &b->at[end ? end - 1 : 0];
	before->all = end;
	after->closest = &b->at[first];
	after->all = b->n - first;
	before->filled = after->filled = 0;
}

/* The sides, by the step from each bound to the next further one. */
enum { BEFORE = -1, AFTER = 1 };

/* The kinds of bounds, by what their v is multiplied with so that smaller proves more. */
enum kind { LOWER = -1, UPPER = 1 };

/* Takes the bounds up to `reach` from the closest, and leaves out those beyond it. */
static inline void limit_side(struct side *s, enum kind kind, ptrdiff_t step, double x,
			      double reach)
{
	size_t n = s->filled, most = s->all < SIDE_MAX ? s->all : SIDE_MAX;
	struct side_bound *at = s->room + SIDE_MAX - n;
	double away = (double)step, any_rate = n ? at->any_rate : INFINITY;

	for (; n < most; n++) {
		const struct bound *next = &s->closest[(ptrdiff_t)n * step];
		double d = away * (x - next->x), bent = turn(d);

		if (away * (next->x - s->closest->x) > reach)
			break;
		any_rate = smaller(kind * next->v - CLOCK_RATE_MAX * d, any_rate);
		*--at = (struct side_bound){ d, { next->v - bent, -next->v - bent }, any_rate };
	}
	s->filled = n;
	while (n && s->room[SIDE_MAX - 1].x - at->x > reach) {
		at++;
		n--;
	}
	s->at = at;
	s->n = n;
}

/* ---- one side of x ---- */

/* Adds b to the n corners of the hull above earlier bounds. Returns how many there are then. */
static inline size_t add_corner(struct bound *hull, size_t n, struct bound b)
{
	while (n >= 2 && bound_is_inside_hull(hull[n - 2], hull[n - 1], b, 1))
		n--;
	hull[n] = b;
	return n + 1;
}

static double rate_between(struct bound a, struct bound b)
{
	return (b.v - a.v) / (b.x - a.x);
}

/* The least of the rates from a corner to the point b after all of them, if it is below `rate`. *touched is the corner
 * that `rate` is from; a smaller rate is from none before it. */
static inline double least_rate(const struct bound *hull, size_t n, size_t *touched, struct bound b,
				double rate)
{
	size_t i = *touched < n ? *touched : n - 1;
	double out, next;

	if (!n)
		return rate;
	out = rate_between(hull[i], b);
	for (; i + 1 < n && (next = rate_between(hull[i + 1], b)) <= out; i++)
		out = next;
	*touched = out < rate ? i : *touched;
	return smaller(out, rate);
}

/* A line above the offset: its value at x, and its rate towards x. */
struct line {
	double v, rate;
};

/* One side of x, where the rate only falls towards x. */
struct falling {
	struct bound hull[SIDE_MAX]; /* the corners of the hull above the bounds `least` */
	size_t corners;
	struct line
		lines[SIDE_MAX]; /* lines[i] is the lowest at x of those through most->at[0..i] */
	double rate; /* the largest rate at x */
};

/*
 * Follows a side towards x while the rate goes this way: it only falls, apart from the turn. `bent` is less what the
 * turn can add, so that the rest of the offset only bends down. Then the mean rate from the `least` of one bound to the
 * `most` of a later bound limits the rate after that. As this limit becomes smaller, its line touches later corners
 * only, so each corner is passed once. For a rate that rises the two kinds of bounds are exchanged.
 */
static void follow(const struct side *least, const struct side *most, enum way way,
		   struct falling *out)
{
	const struct side_bound *l = least->at, *end = l + least->n;
	struct line lowest = { INFINITY, CLOCK_RATE_MAX };
	size_t corners = 0, touched = 0, n = most->n;
	double rate = CLOCK_RATE_MAX;

	for (size_t i = 0; i < n; i++) {
		struct bound b = { most->at[i].x, most->at[i].bent[way] };
		double v;

		for (; l < end && l->x < b.x; l++)
			corners = add_corner(out->hull, corners,
					     (struct bound){ l->x, l->bent[way] });
		rate = least_rate(out->hull, corners, &touched, b, rate);
		v = b.v - rate * b.x;
		if (v < lowest.v)
			lowest = (struct line){ v, rate };
		out->lines[i] = lowest;
	}
	for (; l < end && l->x < -1; l++)
		corners = add_corner(out->hull, corners, (struct bound){ l->x, l->bent[way] });
	out->corners = corners;
	out->rate = rate;
}

/* The value at x of the lowest chord from the upper bounds on one side to the point b on the other side, for an offset
 * that bends up. `rising` has the hull below these upper bounds, negated. */
static double lowest_chord(const struct falling *rising, struct bound b)
{
	double out = INFINITY;

	for (size_t i = 0; i < rising->corners; i++) {
		struct bound a = rising->hull[i];

		out = smaller((b.v * a.x - a.v * b.x) / (a.x + b.x), out);
	}
	return out;
}

/* The largest offset at x if the peak is `far` away, where l is the lowest line above the offset. */
static double highest_at_peak(const struct falling *near, const struct line *l, double far)
{
	double peak = l->v - l->rate * far + 2 * turn(far);

	if (far < 1)
		return l->v;
	return smaller(lowest_chord(near, (struct bound){ -far, peak }), peak + near->rate * far);
}

/*
 * The largest offset at x if the rate rises on the near side of x and further, up to a peak on the far side, and falls
 * after that. `near` follows the near side for a rising rate, `far` the upper bounds `most` of the far side for a rate
 * that falls away from x. No more than `any`.
 *
 * The peak may be between any two upper bounds. Those nearer than the peak give chords to the near side. Those beyond
 * it limit the offset at the peak; from there another chord, and the least rate at x, lead back to x. The further the
 * peak, the lower the chords: the search ends when they are lower than what was found.
 */
static double highest_before_peak(const struct falling *near, const struct falling *far,
				  const struct side *most, enum way way, double any)
{
	enum way opposite = way == FALLING ? RISING : FALLING;
	double chord = INFINITY, found = -INFINITY, from = 0;

	for (size_t n = most->n; n && found < chord && found < any; n--) {
		const struct side_bound *s = &most->at[n - 1];
		const struct line *l = &far->lines[n - 1];
		double v = larger(highest_at_peak(near, l, from), highest_at_peak(near, l, -s->x));

		found = larger(smaller(v, chord), found);
		chord = smaller(lowest_chord(near, (struct bound){ s->x, -s->bent[opposite] }),
				chord);
		from = -s->x;
	}
	return smaller(any, larger(found, chord));
}

static double at_any_rate(const struct side *s)
{
	return s->n ? s->room[SIDE_MAX - 1 - (s->n - 1)].any_rate : INFINITY;
}

/* The interval that the bounds prove, whatever the rate is. */
static struct interval any_rate_before(const struct around *a)
{
	return (struct interval){ -at_any_rate(&a->low_before), at_any_rate(&a->high_before) };
}

static struct interval any_rate_after(const struct around *a)
{
	return (struct interval){ -at_any_rate(&a->low_after), at_any_rate(&a->high_after) };
}

static struct interval any_rate_around(const struct around *a)
{
	struct interval before = any_rate_before(a), after = any_rate_after(a);

	return (struct interval){ larger(before.lo, after.lo), smaller(before.hi, after.hi) };
}

static void look_around(struct around *a, double reach)
{
	limit_side(&a->low_before, LOWER, BEFORE, a->x, reach);
	limit_side(&a->high_before, UPPER, BEFORE, a->x, reach);
	limit_side(&a->low_after, LOWER, AFTER, a->x, reach);
	limit_side(&a->high_after, UPPER, AFTER, a->x, reach);
}

static bool is_empty(struct interval in)
{
	return in.lo > in.hi;
}

/* False if the rate would have to change its direction twice. */
static bool bend_within(const struct around *a, struct interval any, struct bend *out)
{
	struct falling fall_before, fall_after, rise_before, rise_after;

	follow(&a->low_before, &a->high_before, FALLING, &fall_before);
	follow(&a->low_after, &a->high_after, FALLING, &fall_after);
	follow(&a->high_before, &a->low_before, RISING, &rise_before);
	follow(&a->high_after, &a->low_after, RISING, &rise_after);
	*out = (struct bend){
		.peak.hi = highest_before_peak(&rise_before, &fall_after, &a->high_after, FALLING,
					       any.hi),
		.peak.lo = -highest_before_peak(&fall_after, &rise_before, &a->low_before, RISING,
						-any.lo),
		.dip.hi = highest_before_peak(&rise_after, &fall_before, &a->high_before, FALLING,
					      any.hi),
		.dip.lo = -highest_before_peak(&fall_before, &rise_after, &a->low_after, RISING,
					       -any.lo),
		.before = { -fall_after.rate, rise_after.rate },
		.after = { -rise_before.rate, fall_before.rate },
	};
	if (is_empty(out->peak))
		out->peak = out->dip;
	if (is_empty(out->dip))
		out->dip = out->peak;
	return !is_empty(out->peak);
}

/* Bounds further away prove little: there the turn moves the offset by much more than the interval's width. */
static double reach_for(struct interval any)
{
	double far = sqrt(TURN_SHARE * (any.hi - any.lo) / CLOCK_TURN_MAX);

	return larger(smaller(far, ENVELOPE_REACH_NS), REACH_LEAST_NS);
}

/* No such rate explains the closest bounds, so the offset may have jumped at x. Then either the bounds before x
 * hold, or those after it. */
static struct bend broken(const struct around *a)
{
	const struct interval any_rate = { -CLOCK_RATE_MAX, CLOCK_RATE_MAX };
	struct interval before = any_rate_before(a), after = any_rate_after(a);
	struct interval both = { smaller(before.lo, after.lo), larger(before.hi, after.hi) };

	return (struct bend){
		.peak = both,
		.dip = both,
		.before = any_rate,
		.after = any_rate,
		.jumped = true,
	};
}

static bool is_sparse(const struct around *a)
{
	return a->low_before.n < SIDE_LEAST || a->high_before.n < SIDE_LEAST ||
	       a->low_after.n < SIDE_LEAST || a->high_after.n < SIDE_LEAST;
}

bool bend_at(const struct bounds *low, const struct bounds *high, double x, struct bend_near *near,
	     struct bend *out)
{
	struct interval any;
	struct around a;
	double reach;

	if (!low->n || !high->n)
		return false;
	a.x = x;
	begin_sides(low, x, &near->low, &a.low_before, &a.low_after);
	begin_sides(high, x, &near->high, &a.high_before, &a.high_after);
	look_around(&a, FIRST_REACH_NS);
	reach = reach_for(any_rate_around(&a));
	look_around(&a, reach);
	if (is_sparse(&a)) {
		reach = ENVELOPE_REACH_NS;
		look_around(&a, reach);
	}
	any = any_rate_around(&a);
	while (!bend_within(&a, any, out)) {
		reach /= 2;
		if (reach < REACH_LEAST_NS) {
			*out = broken(&a);
			return isfinite(out->peak.lo) && isfinite(out->peak.hi);
		}
		look_around(&a, reach);
	}
	return true;
}
