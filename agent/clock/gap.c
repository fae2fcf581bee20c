/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/gap.h"

#include <math.h>

#include "agent/clock/arith.h"

/* Any rate, or a jump. */
static const struct interval any_rate = { -1, 1 };

/* Neighbouring outer knots, in order of time. */
struct spot {
	const struct clock_knot *knot;
	const struct bend *bend;
};

/* Limits of the rate in a gap, from the gap before it and from the gap after it; any_rate = unknown. */
struct beside {
	struct interval before, after;
};

static double span_of(const struct clock_knot *from, const struct clock_knot *to)
{
	return (double)(to->host_ns - from->host_ns);
}

/* The most that the offset can climb between two knots; with sign -1, the most that it can fall. */
static double most_climb(const struct clock_knot *from, const struct clock_knot *to, int sign)
{
	return (double)(sign > 0 ? to->hi_ns - from->lo_ns : from->hi_ns - to->lo_ns);
}

static struct interval mean_rate(const struct clock_knot *from, const struct clock_knot *to)
{
	double gap = span_of(from, to);

	return (struct interval){ -most_climb(from, to, -1) / gap, most_climb(from, to, 1) / gap };
}

/*
 * The largest rate r with excess0 / (r - base0) + excess1 / (r - base1) >= CLOCK_EXCURSION_NS: how long an excursion
 * to r can last in each of two gaps, if the offset climbs there by no more than this excess above the base rate.
 */
static double largest_rate(double base0, double excess0, double base1, double excess1)
{
	double lasts = CLOCK_EXCURSION_NS;
	double middle = (base0 + base1 + (excess0 + excess1) / lasts) / 2;
	double product = base0 * base1 + (excess0 * base1 + excess1 * base0) / lasts;

	return middle + sqrt(larger(0, middle * middle - product));
}

/* How far CLOCK_TURN_MAX can move the offset in that time. */
static double turn(double gap)
{
	return CLOCK_TURN_MAX / 2 * gap * gap;
}

/*
 * The largest rate of an excursion that begins in the gap from s[0] to s[1] and ends in the gap from s[1] to s[2]. In
 * the first gap the rate is at least what it was at s[0], and in the second one at least what it is at s[2], because
 * in between it rises once and falls once. What the offset climbs beyond that, it climbs during the excursion. All as
 * seen from s[1], where the turn is zero. With sign -1, the same for an excursion to a lower rate, negated.
 */
static double excursion_rate(const struct spot *s, int sign)
{
	double gap0 = span_of(s[0].knot, s[1].knot), gap1 = span_of(s[1].knot, s[2].knot);
	double base0 = sign > 0 ? s[0].bend->after.lo : -s[0].bend->after.hi;
	double base1 = sign > 0 ? s[2].bend->before.lo : -s[2].bend->before.hi;
	double climb0 = most_climb(s[0].knot, s[1].knot, sign) + turn(gap0);
	double climb1 = most_climb(s[1].knot, s[2].knot, sign) + turn(gap1);
	/* Over both gaps the width of the knot between them does not count. */
	double climb = most_climb(s[0].knot, s[2].knot, sign) + turn(gap0) + turn(gap1);
	double base;

	base0 -= CLOCK_TURN_MAX * gap0;
	base1 -= CLOCK_TURN_MAX * gap1;
	base = smaller(base0, base1);
	return smaller(largest_rate(base0, larger(0, climb0 - base0 * gap0), base1,
				    larger(0, climb1 - base1 * gap1)),
		       base + larger(0, climb - base * (gap0 + gap1)) / CLOCK_EXCURSION_NS);
}

/*
 * What the gap beside one says of the rate in it, if the rate changes its direction in one of the two gaps. Either
 * the excursion covers the gap beside as a whole, then it has the mean rate of that; or both its steps are in these
 * two gaps. `own` and `other` are the mean rates in this gap and in the one beside. False if they contradict each
 * other: something happened there, and the excursion may be shorter.
 */
static bool limit_by_gap(const struct spot *s, struct interval own, struct interval other,
			 struct interval *out)
{
	double gap0 = span_of(s[0].knot, s[1].knot), gap1 = span_of(s[1].knot, s[2].knot);
	double bend = CLOCK_TURN_MAX / 2 * larger(gap0, gap1); /* of the mean rate */

	if (gap0 + gap1 > CLOCK_GAPS_MAX_NS || s[0].bend->jumped || s[1].bend->jumped ||
	    s[2].bend->jumped)
		return true;
	if (other.lo > own.hi || other.hi < own.lo)
		return false;
	*out = (struct interval){
		smaller(other.lo - bend, -excursion_rate(s, -1)),
		larger(other.hi + bend, excursion_rate(s, 1)),
	};
	return true;
}

/* A float that is no smaller than v, which is 0 or above. Inline, while nextafterf() is a call. */
static inline float rounded_up(double v)
{
	union {
		float f;
		uint32_t bits;
	} out = { .f = (float)v };

	out.bits += out.f < INFINITY;
	return out.f;
}

static struct clock_tent tent_of(double left, double right, double turn)
{
	return (struct clock_tent){ rounded_up(turn + larger(0, left)),
				    rounded_up(turn + larger(0, right)) };
}

/* The slopes of the lines between two knots, for one of the ways. */
static struct interval slopes_of(const struct clock_knot *k, int way)
{
	const struct clock_way *a = &k[0].ways[way], *b = &k[1].ways[way];
	double gap = span_of(k, k + 1);

	return (struct interval){
		(double)(k[1].lo_ns + b->cut_lo_ns - k[0].lo_ns - a->cut_lo_ns) / gap,
		(double)(k[1].hi_ns - b->cut_hi_ns - k[0].hi_ns + a->cut_hi_ns) / gap,
	};
}

/*
 * How far the offset can leave the lines between two knots. If the rate has a peak, it falls after that, at most to
 * what the right end allows, and before the peak it is hardly known; or it still rises, at least from what the left
 * end allows. So the offset is below the tent whose right slope is well known, and above the one whose left slope is.
 * If the rate has a dip, it is the other way round.
 */
static void widen_gap(struct clock_knot *k, struct interval left, struct interval right,
		      const struct beside *r)
{
	struct clock_way *peak = &k->ways[0], *dip = &k->ways[1];
	double turn = CLOCK_TURN_MAX * span_of(k, k + 1) / 2;
	struct interval slope = slopes_of(k, 0);

	peak->above = tent_of(r->before.hi - slope.hi, slope.hi - right.lo, turn);
	peak->below = tent_of(slope.lo - left.lo, r->after.hi - slope.lo, turn);
	slope = slopes_of(k, 1);
	dip->above = tent_of(left.hi - slope.hi, slope.hi - r->after.lo, turn);
	dip->below = tent_of(slope.lo - r->before.lo, right.hi - slope.lo, turn);
}

/* Which limits of the rate hold in a gap. */
struct trust {
	bool left, right; /* each end's own limits; otherwise those of both ends together */
};

static void widen_inside(struct clock_knot *knots, const struct knot_note *notes, size_t from,
			 size_t to, const struct beside *r, struct trust trust)
{
	for (size_t i = from; i < to; i++) {
		struct interval left = notes[i].bend.after, right = notes[i + 1].bend.before;
		struct interval both = { smaller(left.lo, right.lo), larger(left.hi, right.hi) };
		bool jumped = notes[i].bend.jumped || notes[i + 1].bend.jumped;

		widen_gap(&knots[i], trust.left && !jumped ? left : both,
			  trust.right && !jumped ? right : both, r);
	}
}

static size_t next_outer(const struct knot_note *notes, size_t n, size_t i)
{
	do
		i++;
	while (i < n && notes[i].is_inner);
	return i;
}

/* at[1] and at[2] are the outer knots at the ends of the gap, at[0] the one before if there is one, otherwise at[1],
 * and at[3] the one after, otherwise n. */
static void widen_between(struct clock_knot *knots, const struct knot_note *notes, size_t n,
			  const size_t at[4])
{
	struct beside r = { any_rate, any_rate };
	struct spot s[4] = { 0 };
	struct interval own;
	struct trust trust;
	bool sure;

	for (int i = 0; i < 4 && at[i] < n; i++)
		s[i] = (struct spot){ &knots[at[i]], &notes[at[i]].bend };
	own = mean_rate(s[1].knot, s[2].knot);
	sure = span_of(s[1].knot, s[2].knot) <= CLOCK_GAPS_MAX_NS / 2 && !s[1].bend->jumped &&
	       !s[2].bend->jumped;
	trust = (struct trust){ sure, sure };
	if (sure && at[0] < at[1])
		trust.right = limit_by_gap(s, own, mean_rate(s[0].knot, s[1].knot), &r.before);
	if (sure && at[3] < n)
		trust.left = limit_by_gap(s + 1, own, mean_rate(s[2].knot, s[3].knot), &r.after);
	widen_inside(knots, notes, at[1], at[2], &r, trust);
}

void gaps_widen(struct clock_knot *knots, const struct knot_note *notes, size_t n)
{
	size_t at[4] = { 0, 0, next_outer(notes, n, 0), 0 };

	while (at[2] < n) {
		at[3] = next_outer(notes, n, at[2]);
		widen_between(knots, notes, n, at);
		at[0] = at[1];
		at[1] = at[2];
		at[2] = at[3];
	}
}
