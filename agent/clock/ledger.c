/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/ledger.h"

#include <math.h>
#include <string.h>

#include "base/now.h"

#define SLEW_MAX      600e-6 /* the kernel steers by 500 ppm at most */
#define STEP_FLOOR_NS 1000 /* less is none */
#define SLEEP_MIN_NS  (10 * NS_PER_MS)
#define TOLERANCE_NS  200 /* of the lines between knots, beside the bracket's width */
#define SLOPE_BASE_NS NS_PER_S /* a shorter line says nothing about what comes after it */

typedef __int128 wide;

/* ---- adding ---- */

static void push_knot(struct clock_ledger *l, const struct ledger_point *p, bool fresh)
{
	if (l->n_knots == LEDGER_KNOTS) {
		memmove(&l->knots[0], &l->knots[1], (LEDGER_KNOTS - 1) * sizeof(l->knots[0]));
		l->n_knots--;
	}
	l->knots[l->n_knots++] = (struct ledger_knot){ p->raw_ns, p->real_ns, fresh };
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
		.from_raw_ns = l->last.raw_ns,
		.to_raw_ns = p->raw_ns,
		.delta_ns = delta_ns,
	};
}

/* The wall clock's lead on raw, against that at the knot. */
static double drift_since(const struct ledger_knot *k, const struct ledger_point *p)
{
	return (double)((p->real_ns - p->raw_ns) - (k->real_ns - k->raw_ns));
}

/* Narrows the lines from the last knot to those that pass p, too. */
static bool narrow(struct clock_ledger *l, const struct ledger_point *p)
{
	const struct ledger_knot *k = &l->knots[l->n_knots - 1];
	double dt = (double)(p->raw_ns - k->raw_ns);
	double slack = (double)(TOLERANCE_NS + p->width_ns);

	l->slope_low = fmax(l->slope_low, (drift_since(k, p) - slack) / dt);
	l->slope_high = fmin(l->slope_high, (drift_since(k, p) + slack) / dt);
	return l->slope_low <= l->slope_high;
}

static const enum ledger_news news_of[] = {
	[LEDGER_SET] = LEDGER_STEPPED,
	[LEDGER_SUSPEND] = LEDGER_SLEPT,
	[LEDGER_SOURCE] = LEDGER_SWITCHED,
};

static enum ledger_news begin_segment(struct clock_ledger *l, const struct ledger_point *p,
				      enum ledger_kind kind, int64_t delta_ns)
{
	push_step(l, p, kind, delta_ns);
	if (l->knots[l->n_knots - 1].raw_ns != l->last.raw_ns)
		push_knot(l, &l->last, false);
	push_knot(l, p, true);
	l->last = *p;
	return news_of[kind];
}

enum ledger_news ledger_add(struct clock_ledger *l, const struct ledger_point *p)
{
	int64_t moved, slept;
	double allowed;

	if (!l->n_knots) {
		push_knot(l, p, true);
		l->last = *p;
		return LEDGER_NOTHING;
	}
	if (p->raw_ns <= l->last.raw_ns)
		return LEDGER_NOTHING;
	slept = p->suspended_ns - l->last.suspended_ns;
	moved = (p->real_ns - p->raw_ns) - (l->last.real_ns - l->last.raw_ns);
	allowed = SLEW_MAX * (double)(p->raw_ns - l->last.raw_ns) +
		  (double)(p->width_ns + l->last.width_ns + STEP_FLOOR_NS);
	if (slept > SLEEP_MIN_NS)
		return begin_segment(l, p, LEDGER_SUSPEND, slept);
	if (p->source && l->last.source && p->source != l->last.source)
		return begin_segment(l, p, LEDGER_SOURCE, moved);
	if (fabs((double)moved) > allowed)
		return begin_segment(l, p, LEDGER_SET, moved);
	if (!narrow(l, p)) {
		push_knot(l, &l->last, false);
		(void)narrow(l, p);
	}
	l->last = *p;
	return LEDGER_NOTHING;
}

/* ---- translating ---- */

static int64_t saturate(wide v)
{
	return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

/* Point i; the one after the knots is the last snapshot. */
static struct ledger_knot point_at(const struct clock_ledger *l, size_t i)
{
	if (i < l->n_knots)
		return l->knots[i];
	return (struct ledger_knot){ l->last.raw_ns, l->last.real_ns, false };
}

/* The points [first, end) of one segment. */
struct segment {
	size_t first, end;
};

static struct segment segment_before(const struct clock_ledger *l, size_t end)
{
	size_t first = end - 1;

	while (first > 0 && !point_at(l, first).fresh)
		first--;
	return (struct segment){ first, end };
}

/* Which of the two clocks a time is on. */
static int64_t on(const struct ledger_knot *k, bool real)
{
	return real ? k->real_ns : k->raw_ns;
}

/* How far the segment reaches back: to the end of the one before it, as raw goes. */
static wide reach_back(const struct clock_ledger *l, struct segment s, bool real)
{
	struct ledger_knot a = point_at(l, s.first), before;

	if (!s.first)
		return INT64_MIN;
	before = point_at(l, s.first - 1);
	return (wide)on(&a, real) - (a.raw_ns - before.raw_ns);
}

/* The wall clock's lead on raw at a time that this segment is asked about. */
static wide lead_at(const struct clock_ledger *l, struct segment s, wide x, bool real)
{
	size_t i = s.first;
	struct ledger_knot a, b;
	wide lead;
	double rate;

	while (i + 2 < s.end) {
		b = point_at(l, i + 1);
		if (x < on(&b, real))
			break;
		i++;
	}
	a = point_at(l, i);
	lead = (wide)a.real_ns - a.raw_ns;
	if (i + 1 >= s.end)
		return lead;
	b = point_at(l, i + 1);
	if (b.raw_ns - a.raw_ns < SLOPE_BASE_NS && x > on(&b, real))
		return (wide)b.real_ns - b.raw_ns;
	if (b.raw_ns - a.raw_ns < SLOPE_BASE_NS && x < on(&a, real))
		return lead;
	if (on(&b, real) == on(&a, real))
		return lead;
	rate = (double)((wide)b.real_ns - b.raw_ns - lead) /
	       (double)((wide)on(&b, real) - on(&a, real));
	return lead + (wide)llround(rate * (double)(x - on(&a, real)));
}

/* The newest segment that has this time; a time between two segments is moved to the later's start. */
static struct segment find_segment(const struct clock_ledger *l, wide *x, bool real)
{
	struct segment s = segment_before(l, l->n_knots + 1);

	while (s.first && *x <= reach_back(l, s, real)) {
		struct segment older = segment_before(l, s.first);
		struct ledger_knot start = point_at(l, s.first);
		struct ledger_knot end = point_at(l, older.end - 1);

		/* The older one holds until the newer's first snapshot, as raw goes. */
		if (*x > (wide)on(&end, real) + (start.raw_ns - end.raw_ns)) {
			*x = on(&start, real);
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
