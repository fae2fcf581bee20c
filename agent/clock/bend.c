/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/bend.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#define SIDE_MAX       40 /* the most bounds of one kind on one side of x: the closest ones */
#define SIDE_LEAST     3 /* at least so many, since fewer show little of the rate */
#define REACH_LEAST_NS 0.5e9
/* bounds this near give a first width of the interval, from which the reach follows: */
#define FIRST_REACH_NS 1e9
/* at the reach CLOCK_TURN_MAX has moved the offset by this many times half that width */
#define TURN_SHARE 4

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
		implied = fmax(implied, v);
	}
	implied = -INFINITY;
	for (size_t i = out->n; i-- > 0;) {
		double v = sign * out->at[i].v - CLOCK_RATE_MAX * out->at[i].x;

		if (v > implied)
			out->at[out->n - ++kept] = out->at[i];
		implied = fmax(implied, v);
	}
	memmove(out->at, out->at + out->n - kept, kept * sizeof(*out->at));
	out->n = kept;
}

/* ---- around a time ---- */

/* Bounds of one kind on one side of x, the furthest first. Their x is minus their distance. */
struct side {
	struct bound room[SIDE_MAX];
	const struct bound *at; /* the last n of them */
	size_t n;
};

/* All bounds around x. Those after x are mirrored in time, so rates have the other sign there. */
struct around {
	struct side low_before, high_before, low_after, high_after;
};

/* Bounds of one kind: indices [0, before) are at x or before it, [after, n) at x or after it. */
struct place {
	const struct bounds *b;
	double x;
	size_t before, after;
};

static struct place find_place(const struct bounds *b, double x)
{
	struct place p = { b, x, bounds_from(b, x - 0.5), 0 };

	p.after = p.before;
	while (p.before < b->n && b->at[p.before].x < x + 0.5)
		p.before++;
	return p;
}

static void add_to_side(struct side *s, double far, double v)
{
	s->room[SIDE_MAX - ++s->n] = (struct bound){ -far, v };
}

/* Keeps only the bounds up to `reach` from the closest. */
static void take_before(struct side *s, const struct place *p, double reach)
{
	const struct bound *at = p->b->at;
	size_t first = p->before;

	s->n = 0;
	for (size_t i = first; i && s->n < SIDE_MAX && at[first - 1].x - at[i - 1].x <= reach; i--)
		add_to_side(s, p->x - at[i - 1].x, at[i - 1].v);
	s->at = s->room + SIDE_MAX - s->n;
}

static void take_after(struct side *s, const struct place *p, double reach)
{
	const struct bound *at = p->b->at;
	size_t first = p->after;

	s->n = 0;
	for (size_t i = first; i < p->b->n && s->n < SIDE_MAX && at[i].x - at[first].x <= reach;
	     i++)
		add_to_side(s, at[i].x - p->x, at[i].v);
	s->at = s->room + SIDE_MAX - s->n;
}

/* The largest possible offset at x, and the rate up to x. */
struct highest {
	double v, rate;
};

/* The corners of the hull above the bounds `least`, and the corner that a line of the rate touches from above. */
struct corners {
	struct bound at[SIDE_MAX];
	size_t n, touched;
};

static void add_corner(struct corners *c, struct bound b)
{
	while (c->n >= 2 && bound_is_inside_hull(c->at[c->n - 2], c->at[c->n - 1], b, 1))
		c->n--;
	c->at[c->n++] = b;
	c->touched = c->touched < c->n ? c->touched : c->n - 1;
}

/* Of the lines with this rate through the corners, the one that is highest at x. */
static double highest_line(struct corners *c, double rate)
{
	const struct bound *b = &c->at[c->touched];

	if (!c->n)
		return -INFINITY;
	while (c->touched + 1 < c->n && b[1].v - rate * b[1].x >= b[0].v - rate * b[0].x) {
		c->touched++;
		b++;
	}
	return b->v - rate * b->x;
}

/* How much CLOCK_TURN_MAX can change the offset in that time. */
static double turn(double x)
{
	return CLOCK_TURN_MAX / 2 * x * x;
}

static struct bound bent(struct bound b, int sign)
{
	return (struct bound){ b.x, sign * b.v - turn(b.x) };
}

/*
 * The largest offset at x if the rate only falls, apart from the turn. bent() subtracts what the turn can add, so
 * that the rest of the offset only bends down. Then the mean rate from the `least` of one bound to the `most` of a
 * later bound limits the rate after that. As this limit becomes smaller, its line touches later corners only, so
 * each corner is passed once. With sign -1 and the two kinds of bounds exchanged: the smallest possible offset, for
 * a rate that rises.
 */
static struct highest highest_while_falling(const struct side *least, const struct side *most,
					    int sign)
{
	struct highest out = { INFINITY, CLOCK_RATE_MAX };
	struct corners c = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < most->n; i++) {
		struct bound b = bent(most->at[i], sign);
		double v;

		for (; n < least->n && least->at[n].x < b.x; n++)
			add_corner(&c, bent(least->at[n], sign));
		while (b.v - out.rate * b.x < highest_line(&c, out.rate) - 1e-3)
			out.rate = (b.v - c.at[c.touched].v) / (b.x - c.at[c.touched].x);
		v = b.v - out.rate * b.x;
		out.v = v < out.v ? v : out.v;
	}
	return out;
}

/* How many bounds of a side are not at x itself. */
static size_t count_off(const struct side *s)
{
	return s->n && s->at[s->n - 1].x > -1 ? s->n - 1 : s->n;
}

/* The value at x of the line through a (before x) and b (after x), for an offset that bends up. */
static double chord(struct bound a, struct bound b, int sign)
{
	double at_a = sign * a.v + turn(a.x), at_b = sign * b.v + turn(b.x);

	return (at_a * b.x + at_b * a.x) / (a.x + b.x);
}

/* The chord between bounds on both sides of x that is lowest at x: an offset whose rate rises is below it.
 * With sign -1, the highest one. Each round turns the chord around one of its ends, then the other. */
static double lowest_chord(const struct side *before, const struct side *after, int sign)
{
	size_t n_before = count_off(before), n_after = count_off(after), i = 0, j = 0;
	double best = INFINITY, last;

	if (!n_before || !n_after)
		return INFINITY;
	do {
		last = best;
		for (size_t k = 0; k < n_before; k++) {
			double v = chord(before->at[k], after->at[j], sign);

			i = v < best ? k : i;
			best = v < best ? v : best;
		}
		for (size_t k = 0; k < n_after; k++) {
			double v = chord(before->at[i], after->at[k], sign);

			j = v < best ? k : j;
			best = v < best ? v : best;
		}
	} while (best < last);
	return best;
}

/* The interval that the closest bounds prove, whatever the rate is. */
static double closest(const struct side *before, const struct side *after, int sign)
{
	double out = INFINITY, v;

	for (size_t i = 0; i < before->n; i++) {
		v = sign * before->at[i].v - CLOCK_RATE_MAX * before->at[i].x;
		out = v < out ? v : out;
	}
	for (size_t i = 0; i < after->n; i++) {
		v = sign * after->at[i].v - CLOCK_RATE_MAX * after->at[i].x;
		out = v < out ? v : out;
	}
	return out;
}

static void look_around(const struct place *low, const struct place *high, double reach,
			struct around *a)
{
	take_before(&a->low_before, low, reach);
	take_before(&a->high_before, high, reach);
	take_after(&a->low_after, low, reach);
	take_after(&a->high_after, high, reach);
}

static struct interval at_any_rate(const struct around *a)
{
	return (struct interval){ -closest(&a->low_before, &a->low_after, -1),
				  closest(&a->high_before, &a->high_after, 1) };
}

/* What holds if the rate only falls; false if it cannot. `any` is the interval at any rate. */
static bool bend_down(const struct around *a, struct interval any, struct bend *out)
{
	struct highest before = highest_while_falling(&a->low_before, &a->high_before, 1);
	struct highest after = highest_while_falling(&a->low_after, &a->high_after, 1);

	out->at.hi = fmin(before.v, after.v);
	out->at.lo = fmax(any.lo, -lowest_chord(&a->low_before, &a->low_after, -1));
	out->after.hi = before.rate;
	out->before.lo = -after.rate;
	return out->at.lo <= out->at.hi && out->before.lo <= out->after.hi;
}

/* The same if the rate only rises. */
static bool bend_up(const struct around *a, struct interval any, struct bend *out)
{
	struct highest before = highest_while_falling(&a->high_before, &a->low_before, -1);
	struct highest after = highest_while_falling(&a->high_after, &a->low_after, -1);

	out->at.lo = -fmin(before.v, after.v);
	out->at.hi = fmin(any.hi, lowest_chord(&a->high_before, &a->high_after, 1));
	out->after.lo = -before.rate;
	out->before.hi = after.rate;
	return out->at.lo <= out->at.hi && out->after.lo <= out->before.hi;
}

static const struct interval none = { INFINITY, -INFINITY };

static bool bend_within(const struct around *a, struct interval any, struct bend *out)
{
	struct bend down = { none, none, none }, up = { none, none, none };

	if (!bend_down(a, any, &down))
		down = (struct bend){ none, none, none };
	if (!bend_up(a, any, &up))
		up = (struct bend){ none, none, none };
	*out = (struct bend){
		.at = { fmin(down.at.lo, up.at.lo), fmax(down.at.hi, up.at.hi) },
		.before = { down.before.lo, up.before.hi },
		.after = { up.after.lo, down.after.hi },
	};
	return out->at.lo <= out->at.hi;
}

/* Bounds further away prove little: there the turn moves the offset by much more than the interval's width. */
static double reach_for(struct interval any)
{
	double far = sqrt(TURN_SHARE * (any.hi - any.lo) / CLOCK_TURN_MAX);

	return fmax(REACH_LEAST_NS, fmin(far, ENVELOPE_REACH_NS));
}

/* Neither bending down nor up explains the closest bounds, so the offset may have jumped at x. Then either
 * the bounds before x hold, or those after it. */
static struct bend broken(const struct around *a)
{
	static const struct side nothing;
	const double any = CLOCK_RATE_MAX;
	struct interval before = { -closest(&a->low_before, &nothing, -1),
				   closest(&a->high_before, &nothing, 1) };
	struct interval after = { -closest(&nothing, &a->low_after, -1),
				  closest(&nothing, &a->high_after, 1) };

	return (struct bend){
		.at = { fmin(before.lo, after.lo), fmax(before.hi, after.hi) },
		.before = { -any, any },
		.after = { -any, any },
	};
}

static bool is_sparse(const struct around *a)
{
	return a->low_before.n < SIDE_LEAST || a->high_before.n < SIDE_LEAST ||
	       a->low_after.n < SIDE_LEAST || a->high_after.n < SIDE_LEAST;
}

bool bend_at(const struct bounds *low, const struct bounds *high, double x, struct bend *out)
{
	const struct place in_low = find_place(low, x), in_high = find_place(high, x);
	struct around a;
	struct interval any;
	double reach;

	if (!low->n || !high->n)
		return false;
	look_around(&in_low, &in_high, FIRST_REACH_NS, &a);
	reach = reach_for(at_any_rate(&a));
	look_around(&in_low, &in_high, reach, &a);
	if (is_sparse(&a)) {
		reach = ENVELOPE_REACH_NS;
		look_around(&in_low, &in_high, reach, &a);
	}
	any = at_any_rate(&a);
	while (!bend_within(&a, any, out)) {
		reach /= 2;
		if (reach < REACH_LEAST_NS) {
			*out = broken(&a);
			return isfinite(out->at.lo) && isfinite(out->at.hi);
		}
		look_around(&in_low, &in_high, reach, &a);
	}
	return true;
}
