/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translations between the three time scales. Whole nanoseconds are added and subtracted exactly;
 * only the small terms, a rate times a distance, go through floating point.
 */
#include "agent/clock/model.h"

#include <math.h>
#include <stdlib.h>

#include "agent/clock/arith.h"

void clock_model_free(struct clock_model *m)
{
	free(m->long_knots);
	m->long_knots = NULL;
}

static wide scaled(double rate, wide distance)
{
	return (wide)llround(rate * (double)distance);
}

/* The host clock: raw with the injected error. */
static wide host_of_raw(const struct clock_model *m, wide raw)
{
	return raw + injected_error_ns(m->test_offset_ns, m->test_drift_ppm,
				       (double)(raw - m->test_start_raw_ns));
}

/* ---- the map ---- */

/* The offset at a host time: its interval and best guess. */
struct guess {
	wide offset, lo, hi;
};

static wide wide_min(wide a, wide b)
{
	return a < b ? a : b;
}

static wide wide_max(wide a, wide b)
{
	return a > b ? a : b;
}

/* The offset at another time from one knot: it moves at the segment's rate, and its interval widens by the
 * drift. */
static struct guess guess_from_knot(const struct clock_segment *seg, const struct clock_knot *k,
				    wide host, double drift)
{
	wide far = host - k->host_ns;
	wide moved = scaled(seg->rate, far);
	wide near, stray;

	far = far < 0 ? -far : far;
	near = wide_min(far, seg->horizon_ns);
	stray = scaled(drift, near) + scaled(seg->drift_far, far - near) + (far != 0);
	return (struct guess){ k->offset_ns + moved, k->lo_ns + moved - stray,
			       k->hi_ns + moved + stray };
}

static double height_of(struct clock_tent t, double after, double before)
{
	return fmin((double)t.left * after, (double)t.right * before);
}

/* Between two knots the best guess is on a line. The ends of the interval of one way are on lines, or beyond
 * them by what the offset can bend in between. */
static struct guess guess_this_way(const struct clock_knot *a, int way, wide host)
{
	const struct clock_knot *b = a + 1;
	const struct clock_way *v = &a->ways[way], *w = &b->ways[way];
	double gap = (double)(b->host_ns - a->host_ns);
	double after = (double)(host - a->host_ns), before = gap - after;
	double lo = (double)(b->lo_ns + w->cut_lo_ns - a->lo_ns - v->cut_lo_ns) / gap * after;
	double hi = (double)(b->hi_ns - w->cut_hi_ns - a->hi_ns + v->cut_hi_ns) / gap * after;

	return (struct guess){
		a->offset_ns +
			scaled((double)(b->offset_ns - a->offset_ns) / gap, host - a->host_ns),
		a->lo_ns + v->cut_lo_ns + (wide)floor(lo - height_of(v->below, after, before)),
		a->hi_ns - v->cut_hi_ns + (wide)ceil(hi + height_of(v->above, after, before)),
	};
}

static struct guess guess_between(const struct clock_knot *a, wide host)
{
	struct guess out = guess_this_way(a, 0, host);

	for (int i = 1; i < CLOCK_WAYS; i++) {
		struct guess other = guess_this_way(a, i, host);

		out.lo = wide_min(out.lo, other.lo);
		out.hi = wide_max(out.hi, other.hi);
	}
	return out;
}

static struct guess guess_in_segment(const struct clock_model *m, const struct clock_segment *seg,
				     wide host)
{
	const struct clock_knot *k = &clock_model_knots(m)[seg->first];
	size_t low = 0, high = seg->n - 1;

	if (host <= k[0].host_ns)
		return guess_from_knot(seg, &k[0], host, seg->drift);
	if (host >= k[high].host_ns)
		return guess_from_knot(seg, &k[high], host, seg->drift);
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (k[mid].host_ns <= host)
			low = mid;
		else
			high = mid;
	}
	return guess_between(&k[low], host);
}

static wide end_of(const struct clock_model *m, const struct clock_segment *seg)
{
	return clock_model_knots(m)[seg->first + seg->n - 1].host_ns;
}

/* Between two segments it is unknown when the clock broke: either may be right. The
 * best guess is that of the nearer one. */
static struct guess guess_in_gap(const struct clock_model *m, const struct clock_segment *before,
				 wide host)
{
	const struct clock_segment *after = before + 1;
	struct guess a = guess_in_segment(m, before, host), b = guess_in_segment(m, after, host);
	bool late = host - end_of(m, before) > clock_model_knots(m)[after->first].host_ns - host;

	return (struct guess){ late ? b.offset : a.offset, wide_min(a.lo, b.lo),
			       wide_max(a.hi, b.hi) };
}

static struct guess guess_at(const struct clock_model *m, wide host)
{
	size_t i = 0;

	while (i + 1 < m->n_segments &&
	       host >= clock_model_knots(m)[m->segments[i + 1].first].host_ns)
		i++;
	if (i + 1 < m->n_segments && host > end_of(m, &m->segments[i]))
		return guess_in_gap(m, &m->segments[i], host);
	return guess_in_segment(m, &m->segments[i], host);
}

/* ---- translations ---- */

/* An uncalibrated model takes this host's own clocks, injected error included. */
static wide session_of_raw(const struct clock_model *m, wide raw)
{
	wide host = host_of_raw(m, raw);

	if (!m->calibrated)
		return host - m->pair_raw_ns + m->pair_real_ns;
	if (m->n_segments)
		return host - guess_at(m, host).offset;
	return host - m->offset_ns - scaled(m->rate, host - host_of_raw(m, m->at_raw_ns));
}

int64_t clock_model_session_of_raw(const struct clock_model *m, int64_t raw_ns)
{
	return saturate(session_of_raw(m, raw_ns));
}

int64_t clock_model_knot_raw_ns(const struct clock_model *m, size_t i)
{
	wide host = clock_model_knots(m)[i].host_ns, raw = host - m->test_offset_ns;

	for (int round = 0; round < 4; round++)
		raw -= host_of_raw(m, raw) - host;
	return saturate(raw);
}

int64_t clock_model_raw_offset_at(const struct clock_model *m, int64_t raw_ns)
{
	return saturate(host_of_raw(m, raw_ns) - session_of_raw(m, raw_ns));
}

/* Two raw times with the searched session time between them. */
struct bracket {
	wide below, above;
	bool has_below, has_above;
};

static void narrow_bracket(struct bracket *b, wide raw, wide missing)
{
	if (missing > 0 && (!b->has_below || raw > b->below)) {
		b->below = raw;
		b->has_below = true;
	}
	if (missing < 0 && (!b->has_above || raw < b->above)) {
		b->above = raw;
		b->has_above = true;
	}
}

/* A session time at which the host slept has no raw time: returns the last one before the sleep. */
static wide search_bracket(const struct clock_model *m, wide session, struct bracket b)
{
	while (b.above - b.below > 1) {
		wide middle = b.below + (b.above - b.below) / 2;

		if (session_of_raw(m, middle) <= session)
			b.below = middle;
		else
			b.above = middle;
	}
	return b.below;
}

/* Rates are small: each round shrinks the missing distance at least a thousandfold. Where the clock
 * breaks in between, the rounds may alternate between the two sides of the break. */
int64_t clock_model_raw_of_session(const struct clock_model *m, int64_t session_ns)
{
	struct bracket b = { 0 };
	wide raw = m->at_raw_ns;

	for (int i = 0; i < 8; i++) {
		wide missing = (wide)session_ns - session_of_raw(m, raw);

		if (!missing)
			return saturate(raw);
		narrow_bracket(&b, raw, missing);
		raw += missing;
	}
	if (b.has_below && b.has_above && b.below < b.above)
		raw = search_bracket(m, session_ns, b);
	return saturate(raw);
}

int64_t clock_model_raw_of_real(const struct clock_model *m, int64_t real_ns)
{
	if (m->ledger.n_knots)
		return ledger_raw_of_real(&m->ledger, real_ns);
	return saturate((wide)real_ns - m->pair_real_ns + m->pair_raw_ns);
}

int64_t clock_model_real_of_raw(const struct clock_model *m, int64_t raw_ns)
{
	if (m->ledger.n_knots)
		return ledger_real_of_raw(&m->ledger, raw_ns);
	return saturate((wide)raw_ns - m->pair_raw_ns + m->pair_real_ns);
}

int64_t clock_model_wall_offset_at(const struct clock_model *m, int64_t raw_ns)
{
	wide host_wall = clock_model_real_of_raw(m, raw_ns) + host_of_raw(m, raw_ns) - raw_ns;

	return saturate(host_wall - session_of_raw(m, raw_ns));
}

static wide bound_of(struct guess g)
{
	return wide_max(g.hi - g.offset, g.offset - g.lo);
}

int64_t clock_model_bound_at(const struct clock_model *m, int64_t raw_ns)
{
	wide far = (wide)raw_ns - m->at_raw_ns;

	if (m->n_segments)
		return saturate(bound_of(guess_at(m, host_of_raw(m, raw_ns))));
	return saturate((wide)m->bound_ns + scaled(m->bound_rate, far < 0 ? -far : far));
}

static wide bound_at_clipped(const struct clock_model *m, wide host, wide from, wide to)
{
	return bound_of(guess_at(m, wide_max(from, wide_min(host, to))));
}

/* The height of a tent's top. */
static double top_of(struct clock_tent t, double gap)
{
	double left = (double)t.left, right = (double)t.right;

	return left > 0 && right > 0 ? left * right / (left + right) * gap : 0;
}

static wide largest_widening(const struct clock_knot *a)
{
	double gap = (double)(a[1].host_ns - a->host_ns), top = 0;

	for (int i = 0; i < CLOCK_WAYS; i++)
		top = fmax(top, fmax(top_of(a->ways[i].above, gap), top_of(a->ways[i].below, gap)));
	return (wide)ceil(top);
}

static wide largest_bound_inside(const struct clock_model *m, const struct clock_segment *seg,
				 wide from, wide to)
{
	wide out = 0;

	for (size_t i = seg->first; i < (size_t)seg->first + seg->n; i++) {
		const struct clock_knot *a = &clock_model_knots(m)[i], *b = a + 1;

		out = wide_max(out, bound_at_clipped(m, a->host_ns, from, to));
		if (i + 1 == (size_t)seg->first + seg->n || b->host_ns <= from || a->host_ns >= to)
			continue;
		out = wide_max(out, wide_max(bound_of(guess_at(m, a->host_ns)),
					     bound_of(guess_at(m, b->host_ns))) +
					    largest_widening(a) + 2);
	}
	return out;
}

int64_t clock_model_bound_over(const struct clock_model *m, int64_t from_raw_ns, int64_t to_raw_ns)
{
	wide from = host_of_raw(m, from_raw_ns), to = host_of_raw(m, to_raw_ns);
	int64_t first = clock_model_bound_at(m, from_raw_ns);
	int64_t last = clock_model_bound_at(m, to_raw_ns);
	wide out = first > last ? first : last;

	for (size_t i = 0; i < m->n_segments; i++) {
		const struct clock_segment *seg = &m->segments[i];
		wide middle;

		out = wide_max(out, largest_bound_inside(m, seg, from, to));
		if (i + 1 == m->n_segments)
			break;
		/* In the gap between two segments the bound is largest at an end, or where the guess changes
		 * to the other segment. */
		middle = (end_of(m, seg) + clock_model_knots(m)[seg[1].first].host_ns) / 2;
		for (int d = -1; d <= 1; d++)
			out = wide_max(out, bound_at_clipped(m, middle + d, from, to));
		out = wide_max(out, bound_at_clipped(m, end_of(m, seg) + 1, from, to));
		out = wide_max(out, bound_at_clipped(
					    m, (wide)clock_model_knots(m)[seg[1].first].host_ns - 1,
					    from, to));
	}
	return saturate(out);
}

static bool is_broken_in(const struct clock_model *m, wide from, wide to)
{
	for (size_t i = 0; i + 1 < m->n_segments; i++) {
		const struct clock_segment *seg = &m->segments[i];

		if (to > end_of(m, seg) && from < clock_model_knots(m)[seg[1].first].host_ns)
			return true;
	}
	return false;
}

/* Moving session times earlier makes the offset larger. If the line between two knots leaves the interval,
 * the slack on that side is 0. */
static void narrow_slack(const struct clock_model *m, wide host, struct clock_slack *slack)
{
	struct guess g = guess_at(m, host);

	slack->earlier_ns = saturate(wide_min(slack->earlier_ns, wide_max(0, g.hi - g.offset)));
	slack->later_ns = saturate(wide_min(slack->later_ns, wide_max(0, g.offset - g.lo)));
}

/* For each of the ways, the ends of the interval bend away from the guess between two knots, so its slack is least at
 * an end of the gap. What either way leaves is left. */
static void narrow_slack_between(const struct clock_knot *a, wide from, wide to,
				 struct clock_slack *slack)
{
	wide earlier = 0, later = 0;

	for (int i = 0; i < CLOCK_WAYS; i++) {
		struct guess g = guess_this_way(a, i, from), h = guess_this_way(a, i, to);

		earlier = wide_max(earlier, wide_min(g.hi - g.offset, h.hi - h.offset));
		later = wide_max(later, wide_min(g.offset - g.lo, h.offset - h.lo));
	}
	slack->earlier_ns = saturate(wide_min(slack->earlier_ns, earlier));
	slack->later_ns = saturate(wide_min(slack->later_ns, later));
}

static void narrow_slack_in(const struct clock_model *m, const struct clock_segment *seg, wide from,
			    wide to, struct clock_slack *slack)
{
	const struct clock_knot *k = &clock_model_knots(m)[seg->first];

	for (size_t i = 0; i + 1 < seg->n; i++) {
		wide begin = wide_max(from, k[i].host_ns), end = wide_min(to, k[i + 1].host_ns);

		if (begin < end)
			narrow_slack_between(&k[i], begin, end, slack);
	}
}

struct clock_slack clock_model_slack_over(const struct clock_model *m, int64_t from_raw_ns,
					  int64_t to_raw_ns)
{
	wide from = host_of_raw(m, from_raw_ns), to = host_of_raw(m, to_raw_ns);
	struct clock_slack slack = { INT64_MAX, INT64_MAX };

	if (!m->calibrated || !m->n_segments || is_broken_in(m, from, to))
		return (struct clock_slack){ 0 };
	narrow_slack(m, from, &slack);
	narrow_slack(m, to, &slack);
	for (size_t i = 0; i < m->n_segments; i++)
		narrow_slack_in(m, &m->segments[i], from, to, &slack);
	return slack;
}

enum clock_grade clock_grade_of(const struct clock_model *m, int64_t bound_ns)
{
	if (!m->calibrated)
		return CLOCK_X;
	if (bound_ns <= 10000)
		return CLOCK_A;
	if (bound_ns <= 100000)
		return CLOCK_B;
	return bound_ns <= 1000000 ? CLOCK_C : CLOCK_D;
}

const char *clock_grade_name(enum clock_grade g)
{
	static const char *const names[] = {
		[CLOCK_X] = "X", [CLOCK_A] = "A", [CLOCK_B] = "B", [CLOCK_C] = "C", [CLOCK_D] = "D",
	};

	return names[g];
}

const char *clock_break_name(enum clock_break cause)
{
	static const char *const names[] = {
		[CLOCK_BREAK_NONE] = "none",	      [CLOCK_BREAK_STEP] = "step",
		[CLOCK_BREAK_RATE] = "rate",	      [CLOCK_BREAK_SUSPEND] = "suspend",
		[CLOCK_BREAK_SOURCE] = "clocksource", [CLOCK_BREAK_MOVED] = "moved",
		[CLOCK_BREAK_DOUBT] = "doubt",	      [CLOCK_BREAK_TAKEOVER] = "takeover",
	};

	return names[cause];
}
