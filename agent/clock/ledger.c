/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/ledger.h"

#include <math.h>
#include <string.h>

#include "agent/clock/arith.h"

#define SLEEP_MIN_NS (10 * NS_PER_MS)
/* how far points may be off some line through the knot before them, besides the width of a reading */
#define TOLERANCE_NS 50
/* The line to the next knot passes the last of these points: the others are up to two tolerances off. The wall clock
 * may have been steered otherwise in the middle between two points, unnoticed, by a third. */
#define LINE_TOLERANCES 3
#define SLOPE_BASE_NS	NS_PER_S /* a shorter line is not extended */
/* Steering goes from -500 to 500 ppm at most. The same limits the rate where there are no points. */
#define STEERING_MAX 1e-3
#define KEEP_NS	     (3900 * NS_PER_S) /* the longest capture, and some time around it */

/* ---- adding ---- */

static void remove_knot(struct clock_ledger *l, size_t i)
{
	l->n_knots--;
	memmove(&l->knots[i], &l->knots[i + 1], (l->n_knots - i) * sizeof(l->knots[0]));
}

static double lead_of(const struct ledger_knot *k)
{
	return (double)(k->real_ns - k->raw_ns);
}

/* The error of the line from knot i - 1 to knot i + 1, without the one between; INFINITY if a segment begins there. */
static double error_without(const struct clock_ledger *l, size_t i)
{
	const struct ledger_knot *a = &l->knots[i - 1], *b = &l->knots[i], *c = &l->knots[i + 1];
	double part;

	if (b->begins_segment || c->begins_segment)
		return INFINITY;
	part = (double)(b->raw_ns - a->raw_ns) / (double)(c->raw_ns - a->raw_ns);
	return fmax((double)a->error_ns, (double)b->error_ns) +
	       fabs(lead_of(b) - lead_of(a) - part * (lead_of(c) - lead_of(a)));
}

/* Makes room for a knot. Where all knots are of the time that captures may need, the one goes that is missed least. */
static void make_room(struct clock_ledger *l)
{
	double least = INFINITY;
	size_t found = 0;

	if (l->last.pair.raw_ns - l->knots[1].raw_ns > KEEP_NS) {
		remove_knot(l, 0);
		return;
	}
	for (size_t i = 1; i + 1 < l->n_knots; i++) {
		double error = error_without(l, i);

		if (error < least) {
			least = error;
			found = i;
		}
	}
	if (found)
		l->knots[found - 1].error_ns = (int64_t)ceil(least);
	remove_knot(l, found);
}

static double tolerance_of(const struct clock_pair *p)
{
	return (double)(TOLERANCE_NS + p->width_ns);
}

/* `bend_ns`: how far the wall clock may be off the line to the next point, because it was steered otherwise in between. */
static void push_knot(struct clock_ledger *l, const struct clock_pair *p, bool begins_segment,
		      double bend_ns)
{
	if (l->n_knots == LEDGER_KNOTS)
		make_room(l);
	l->knots[l->n_knots++] = (struct ledger_knot){
		.raw_ns = p->raw_ns,
		.real_ns = p->real_ns,
		.error_ns = (int64_t)ceil(LINE_TOLERANCES * tolerance_of(p) + bend_ns),
		.begins_segment = begins_segment,
	};
	l->slope_low = -INFINITY;
	l->slope_high = INFINITY;
}

static void push_step(struct clock_ledger *l, const struct ledger_point *p, enum ledger_kind kind,
		      int64_t delta_ns)
{
	if (l->n_steps == LEDGER_STEPS) {
		memmove(&l->steps[0], &l->steps[1], (LEDGER_STEPS - 1) * sizeof(l->steps[0]));
		l->n_steps--;
	}
	l->steps_seen++;
	l->steps[l->n_steps++] = (struct ledger_step){
		.kind = kind,
		.from_raw_ns = l->last.pair.raw_ns,
		.to_raw_ns = p->pair.raw_ns,
		.delta_ns = delta_ns,
	};
}

/* How far the wall clock moved against raw since the knot. */
static double drift_since(const struct ledger_knot *k, const struct clock_pair *p)
{
	return (double)((p->real_ns - p->raw_ns) - (k->real_ns - k->raw_ns));
}

/* Narrows the slopes of the lines from the last knot to those that also pass p; false if none is left. */
static bool narrow_slopes(struct clock_ledger *l, const struct clock_pair *p)
{
	struct ledger_knot *k = &l->knots[l->n_knots - 1];
	double dt = (double)(p->raw_ns - k->raw_ns), tolerance = tolerance_of(p);
	double low = fmax(l->slope_low, (drift_since(k, p) - tolerance) / dt);
	double high = fmin(l->slope_high, (drift_since(k, p) + tolerance) / dt);

	if (low > high)
		return false;
	l->slope_low = low;
	l->slope_high = high;
	if (k->error_ns < LINE_TOLERANCES * tolerance)
		k->error_ns = (int64_t)ceil(LINE_TOLERANCES * tolerance);
	return true;
}

/*
 * How far the wall clock may have been off the line between the last point and p. If p is m off the slopes so far,
 * steering changed in between by some d ppm, m / d before p, and the clock is off the line by m (1 - m / (d gap)) there.
 */
static double bend_before(const struct clock_ledger *l, const struct clock_pair *p)
{
	const struct ledger_knot *k = &l->knots[l->n_knots - 1];
	double dt = (double)(p->raw_ns - k->raw_ns), drift = drift_since(k, p);
	double most = STEERING_MAX * (double)(p->raw_ns - l->last.pair.raw_ns);
	double off = fmax(drift - l->slope_low * dt, l->slope_high * dt - drift);

	return off < most / 2 ? off * (1 - off / most) : most / 4;
}

/* The same segment goes on to p. Where the line bends, a knot begins it anew, whose error is large; once two points after
 * that knot are on one line, the first of them gets a knot, so that the error is that of one gap between points. */
static void go_on(struct clock_ledger *l, const struct clock_pair *p)
{
	double bend_ns;

	if (!narrow_slopes(l, p)) {
		bend_ns = bend_before(l, p);
		push_knot(l, &l->last.pair, false, bend_ns);
		(void)narrow_slopes(l, p);
		l->is_bent = bend_ns > tolerance_of(p);
	} else if (l->is_bent) {
		push_knot(l, &l->last.pair, false, 0);
		(void)narrow_slopes(l, p);
		l->is_bent = false;
	}
}

static const enum ledger_change change_of[] = {
	[LEDGER_SET] = LEDGER_STEPPED,
	[LEDGER_SUSPEND] = LEDGER_SLEPT,
	[LEDGER_SOURCE] = LEDGER_SWITCHED,
	[LEDGER_MOVED] = LEDGER_DISRUPTED,
};

static enum ledger_change begin_segment(struct clock_ledger *l, const struct ledger_point *p,
					enum ledger_kind kind, int64_t delta_ns)
{
	push_step(l, p, kind, delta_ns);
	l->is_bent = false;
	if (l->knots[l->n_knots - 1].raw_ns != l->last.pair.raw_ns)
		push_knot(l, &l->last.pair, false, 0);
	push_knot(l, &p->pair, true, 0);
	l->last = *p;
	return change_of[kind];
}

enum ledger_change ledger_add(struct clock_ledger *l, const struct ledger_point *p)
{
	int64_t moved, slept;

	if (!l->n_knots) {
		push_knot(l, &p->pair, true, 0);
		l->last = *p;
		return LEDGER_NO_CHANGE;
	}
	if (p->pair.raw_ns <= l->last.pair.raw_ns)
		return LEDGER_NO_CHANGE;
	slept = p->suspended_ns - l->last.suspended_ns;
	moved = clock_pair_moved_ns(&l->last.pair, &p->pair);
	if (slept > SLEEP_MIN_NS)
		return begin_segment(l, p, LEDGER_SUSPEND, slept);
	if (p->disruption && l->last.disruption && p->disruption != l->last.disruption)
		return begin_segment(l, p, LEDGER_MOVED, moved);
	if (p->source && l->last.source && p->source != l->last.source)
		return begin_segment(l, p, LEDGER_SOURCE, moved);
	if (clock_pair_has_step(&l->last.pair, &p->pair))
		return begin_segment(l, p, LEDGER_SET, moved);
	go_on(l, &p->pair);
	l->last = *p;
	return LEDGER_NO_CHANGE;
}

/* ---- translating ---- */

/* Knot i; after the last knot, the last snapshot. */
static struct ledger_knot knot_at(const struct clock_ledger *l, size_t i)
{
	if (i < l->n_knots)
		return l->knots[i];
	return (struct ledger_knot){ .raw_ns = l->last.pair.raw_ns,
				     .real_ns = l->last.pair.real_ns };
}

/* The knots [first, end) of one segment. */
struct segment {
	size_t first, end;
};

static struct segment segment_before(const struct clock_ledger *l, size_t end)
{
	size_t first = end - 1;

	while (first > 0 && !knot_at(l, first).begins_segment)
		first--;
	return (struct segment){ first, end };
}

/* A knot's time on the clock that the input is on. */
static int64_t time_of(const struct ledger_knot *k, bool real)
{
	return real ? k->real_ns : k->raw_ns;
}

/* When the segment begins, on the clock that the input is on: at its first knot, less the raw time that passed since
 * the last knot of the segment before it. */
static wide begin_of(const struct clock_ledger *l, struct segment s, bool real)
{
	struct ledger_knot a = knot_at(l, s.first), before;

	if (!s.first)
		return INT64_MIN;
	before = knot_at(l, s.first - 1);
	return (wide)time_of(&a, real) - (a.raw_ns - before.raw_ns);
}

/* How far the wall clock is ahead of raw at time x, which belongs to this segment. */
static wide lead_at(const struct clock_ledger *l, struct segment s, wide x, bool real)
{
	size_t i = s.first;
	struct ledger_knot a, b;
	wide lead;
	double rate;

	while (i + 2 < s.end) {
		b = knot_at(l, i + 1);
		if (x < time_of(&b, real))
			break;
		i++;
	}
	a = knot_at(l, i);
	lead = (wide)a.real_ns - a.raw_ns;
	if (i + 1 >= s.end)
		return lead;
	b = knot_at(l, i + 1);
	if (b.raw_ns - a.raw_ns < SLOPE_BASE_NS && x > time_of(&b, real))
		return (wide)b.real_ns - b.raw_ns;
	if (b.raw_ns - a.raw_ns < SLOPE_BASE_NS && x < time_of(&a, real))
		return lead;
	if (time_of(&b, real) == time_of(&a, real))
		return lead;
	rate = (double)((wide)b.real_ns - b.raw_ns - lead) /
	       (double)((wide)time_of(&b, real) - time_of(&a, real));
	return lead + (wide)llround(rate * (double)(x - time_of(&a, real)));
}

/* The newest segment that has this time; a time between two segments is moved to the later's
 * start. */
static struct segment find_segment(const struct clock_ledger *l, wide *x, bool real)
{
	struct segment s = segment_before(l, l->n_knots + 1);

	while (s.first && *x <= begin_of(l, s, real)) {
		struct segment older = segment_before(l, s.first);
		struct ledger_knot start = knot_at(l, s.first);
		struct ledger_knot end = knot_at(l, older.end - 1);

		/* The older segment holds until the newer one's first snapshot, measured by raw. */
		if (*x > (wide)time_of(&end, real) + (start.raw_ns - end.raw_ns)) {
			*x = time_of(&start, real);
			return s;
		}
		s = older;
	}
	return s;
}

int64_t ledger_raw_of_real(const struct clock_ledger *l, int64_t real_ns)
{
	wide x = real_ns;
	struct segment s;

	if (!l->n_knots)
		return real_ns;
	s = find_segment(l, &x, true);
	return saturate(x - lead_at(l, s, x, true));
}

int64_t ledger_real_of_raw(const struct clock_ledger *l, int64_t raw_ns)
{
	wide x = raw_ns;
	struct segment s;

	if (!l->n_knots)
		return raw_ns;
	s = find_segment(l, &x, false);
	return saturate(x + lead_at(l, s, x, false));
}

static int64_t larger_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

int64_t ledger_error_ns(const struct clock_ledger *l, int64_t from_raw_ns, int64_t to_raw_ns)
{
	int64_t worst = 0;
	wide before, after;

	if (!l->n_knots)
		return 0;
	for (size_t i = 0; i < l->n_knots; i++) {
		bool begins = !i || l->knots[i].raw_ns <= to_raw_ns;
		bool ends = i + 1 < l->n_knots && l->knots[i + 1].raw_ns < from_raw_ns;

		if (begins && !ends)
			worst = larger_ns(worst, l->knots[i].error_ns);
	}
	before = (wide)l->knots[0].raw_ns - from_raw_ns;
	after = (wide)to_raw_ns - l->last.pair.raw_ns;
	before = before > after ? before : after;
	return saturate(worst + (before > 0 ? (wide)(STEERING_MAX * (double)before) : 0));
}
