/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/ledger.h"

#include <math.h>
#include <string.h>

#include "agent/clock/arith.h"

#define SLEEP_MIN_NS (10 * NS_PER_MS)
/* how far points may be off the lines between knots, besides the width of a reading */
#define TOLERANCE_NS  200
#define SLOPE_BASE_NS NS_PER_S /* a shorter line is not extended */

/* ---- adding ---- */

static void push_knot(struct clock_ledger *l, const struct clock_pair *p, bool begins_segment)
{
	if (l->n_knots == LEDGER_KNOTS) {
		memmove(&l->knots[0], &l->knots[1], (LEDGER_KNOTS - 1) * sizeof(l->knots[0]));
		l->n_knots--;
	}
	l->knots[l->n_knots++] = (struct ledger_knot){ p->raw_ns, p->real_ns, begins_segment };
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
	const struct ledger_knot *k = &l->knots[l->n_knots - 1];
	double dt = (double)(p->raw_ns - k->raw_ns);
	double tolerance = (double)(TOLERANCE_NS + p->width_ns);

	l->slope_low = fmax(l->slope_low, (drift_since(k, p) - tolerance) / dt);
	l->slope_high = fmin(l->slope_high, (drift_since(k, p) + tolerance) / dt);
	return l->slope_low <= l->slope_high;
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
	if (l->knots[l->n_knots - 1].raw_ns != l->last.pair.raw_ns)
		push_knot(l, &l->last.pair, false);
	push_knot(l, &p->pair, true);
	l->last = *p;
	return change_of[kind];
}

enum ledger_change ledger_add(struct clock_ledger *l, const struct ledger_point *p)
{
	int64_t moved, slept;

	if (!l->n_knots) {
		push_knot(l, &p->pair, true);
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
	if (!narrow_slopes(l, &p->pair)) {
		push_knot(l, &l->last.pair, false);
		(void)narrow_slopes(l, &p->pair);
	}
	l->last = *p;
	return LEDGER_NO_CHANGE;
}

/* ---- translating ---- */

/* Knot i; after the last knot, the last snapshot. */
static struct ledger_knot knot_at(const struct clock_ledger *l, size_t i)
{
	if (i < l->n_knots)
		return l->knots[i];
	return (struct ledger_knot){ l->last.pair.raw_ns, l->last.pair.real_ns, false };
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
