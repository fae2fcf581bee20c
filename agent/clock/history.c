/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one-sided bounds to a pace, in two passes. The first assumes only CLOCK_DRIFT_MAX: it gives
 * intervals that are wide and certain, and each two of them give an interval for the mean rate in
 * between. The second needs how far the rate strays from that mean, which no bound can prove. It is
 * twice the smallest stray at which the bounds do not contradict each other, and never less than
 * what the bounds could hide. docs/time.md has the reasons.
 */
#include "agent/clock/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"

#define GRID	4096 /* times that the passes examine: a second apart in an hour */
#define GRID_NS 1e9 /* their least distance */
#define RATES	128 /* of these times, the ones of which each two are compared */
#define JITTERS 128 /* probes whose distance from their neighbours is looked at */
/* A pace whose samples begin this much earlier or later is used again. */
#define PACE_REUSE_NS (5 * NS_PER_S)
#define RATE_BASE_NS  2e9 /* least distance of two intervals that make a rate */
/* Beyond the probes the rate may stray this many times as far. */
#define BEYOND	3
#define NEAR_NS 100e6 /* two bounds of about the same time */

#define WANDER_FIRST 0.5e-6
#define WANDER_STEP  1.25
#define WANDER_LEAST 1e-6
/* A history of this length shows how its crystal wanders; a shorter one gets more, in
 * proportion. */
#define WANDER_SPAN_NS 120e9

/* A wander is hidden while it moves the offset by less than this many times half the interval's
 * width within one bound's reach. Twice was too little for rates that step under jitter. */
#define HIDE	     4
#define HIDE_MEDIAN  5 /* intervals, of whose widths the median counts */
#define CUT_NS	     20e6 /* at least the last train */
#define HIDE_NEAR_NS 5e9 /* and the largest of the medians so far around a time */

/* The cone's rate is the mean of the last one or two of these. */
#define ANCHOR_NS 120e9
#define CONE_SURE 20e-6

struct grid {
	double x[GRID];
	size_t n;
};

struct clock_history *clock_history_new(enum clock_break cause, int64_t begin_ns)
{
	struct clock_history *h = xcalloc(1, sizeof(*h));

	h->cause = cause;
	h->begin_ns = begin_ns;
	h->certain = (struct interval){ -INFINITY, INFINITY };
	h->cone = (struct pace){ 0, CLOCK_DRIFT_MAX };
	h->rtt_min_ns = -1;
	return h;
}

void clock_history_free(struct clock_history *h)
{
	if (!h)
		return;
	bounds_free(&h->low);
	bounds_free(&h->high);
	bounds_free(&h->tight_low);
	bounds_free(&h->tight_high);
	free(h->pace.hidden);
	free(h);
}

/* ---- samples ---- */

static bool has_bounds(const struct clock_history *h)
{
	return h->low.n || h->high.n;
}

/* The rates of the cone: none that no clock has. */
static struct interval rates_of(struct pace cone)
{
	return (struct interval){ fmax(cone.rate - cone.drift, -CLOCK_RATE_MAX),
				  fmin(cone.rate + cone.drift, CLOCK_RATE_MAX) };
}

/* What the history allows at x while the rate stays in the cone. */
static struct interval allowed_at(const struct clock_history *h, double x)
{
	struct interval rate = rates_of(h->cone);
	double d = x - h->certain_x;

	return (struct interval){ h->certain.lo + fmin(rate.lo * d, rate.hi * d),
				  h->certain.hi + fmax(rate.lo * d, rate.hi * d) };
}

static struct bound low_of(const struct clock_history *h, const struct clock_sample *s)
{
	return (struct bound){ (double)(s->t1_ns - h->x0_ns),
			       (double)(s->t1_ns - s->t2_ns - h->v0_ns) };
}

static struct bound high_of(const struct clock_history *h, const struct clock_sample *s)
{
	return (struct bound){ (double)(s->t4_ns - h->x0_ns),
			       (double)(s->t4_ns - s->t3_ns - h->v0_ns) };
}

/* How far a sample is outside of an interval that is given for each of its two times; below zero:
 * under it. */
static double distance_of(const struct clock_sample *s, struct bound low, struct interval at_low,
			  struct bound high, struct interval at_high)
{
	if (!s->no_request && low.v > at_low.hi)
		return low.v - at_low.hi;
	if (!s->no_reply && high.v < at_high.lo)
		return high.v - at_high.lo;
	return 0;
}

/* The bounds near x at any rate; everything where there are none of both kinds. */
static struct interval any_rate_at(const struct clock_history *h, double x)
{
	const struct pace any = { 0, CLOCK_DRIFT_MAX };
	struct interval in;

	if (!envelope_at(&h->low, &h->high, x, any, &in))
		in = (struct interval){ -INFINITY, INFINITY };
	return in;
}

int64_t clock_history_contradiction_ns(const struct clock_history *h, const struct clock_sample *s,
				       bool *rate)
{
	struct bound low = low_of(h, s), high = high_of(h, s);
	double out;

	*rate = false;
	if (!has_bounds(h))
		return 0;
	out = distance_of(s, low, allowed_at(h, low.x), high, allowed_at(h, high.x));
	if (out != 0)
		*rate = distance_of(s, low, any_rate_at(h, low.x), high, any_rate_at(h, high.x)) ==
			0;
	return (int64_t)(out < 0 ? floor(out) : ceil(out));
}

static void narrow_certain(struct clock_history *h, double x, double lo, double hi)
{
	struct interval rate = rates_of(h->cone);

	if (x > h->certain_x) {
		h->certain = allowed_at(h, x);
		h->certain_x = x;
	}
	h->certain.lo = fmax(h->certain.lo, lo + rate.lo * (h->certain_x - x));
	h->certain.hi = fmin(h->certain.hi, hi + rate.hi * (h->certain_x - x));
}

/* What is certain now and what was certain at the anchor prove the mean rate since then. It strays
 * no further from that than CLOCK_STRAY_MAX. */
static void narrow_cone(struct clock_history *h)
{
	double dt = h->certain_x - h->anchor_x, least, most, drift;

	if (!isfinite(h->certain.lo) || !isfinite(h->certain.hi))
		return;
	if (!h->has_anchor || dt > ANCHOR_NS) {
		h->anchor = h->certain;
		h->anchor_x = h->certain_x;
		h->has_anchor = true;
		return;
	}
	if (dt < RATE_BASE_NS)
		return;
	least = (h->certain.lo - h->anchor.hi) / dt;
	most = (h->certain.hi - h->anchor.lo) / dt;
	drift = CLOCK_STRAY_MAX + (most - least) / 2;
	if (most >= least && (drift < h->cone.drift || drift < CLOCK_STRAY_MAX + CONE_SURE))
		h->cone = (struct pace){ (most + least) / 2, fmin(drift, CLOCK_DRIFT_MAX) };
}

static void extend_span(struct clock_history *h, int64_t at_ns)
{
	h->first_ns = at_ns < h->first_ns ? at_ns : h->first_ns;
	h->last_ns = at_ns > h->last_ns ? at_ns : h->last_ns;
}

static void set_origin(struct clock_history *h, const struct clock_sample *s)
{
	h->x0_ns = s->no_request ? s->t4_ns : s->t1_ns;
	h->v0_ns = s->no_request ? s->t4_ns - s->t3_ns : s->t1_ns - s->t2_ns;
	h->first_ns = h->x0_ns;
	h->last_ns = h->x0_ns;
}

void clock_history_add(struct clock_history *h, const struct clock_sample *s)
{
	int64_t rtt = (s->t4_ns - s->t1_ns) - (s->t3_ns - s->t2_ns);

	if (!has_bounds(h))
		set_origin(h, s);
	if (!s->no_request) {
		struct bound low = low_of(h, s);

		bounds_add(&h->low, low, 1, h->pace.pace.rate);
		narrow_certain(h, low.x, low.v, INFINITY);
		extend_span(h, s->t1_ns);
	}
	if (!s->no_reply) {
		struct bound high = high_of(h, s);

		bounds_add(&h->high, high, -1, h->pace.pace.rate);
		narrow_certain(h, high.x, -INFINITY, high.v);
		extend_span(h, s->t4_ns);
	}
	if (!s->no_request && !s->no_reply && (h->rtt_min_ns < 0 || rtt < h->rtt_min_ns))
		h->rtt_min_ns = rtt;
	narrow_cone(h);
	h->probes += !s->is_update;
	h->has_pace = h->is_pruned = false;
}

static bool keep_until(struct clock_history *h, double at)
{
	size_t low = bounds_from(&h->low, at), high = bounds_from(&h->high, at);

	if (!low || !high)
		return false;
	h->low.n = low;
	h->high.n = high;
	h->last_ns = h->x0_ns + (int64_t)fmax(h->low.at[low - 1].x, h->high.at[high - 1].x);
	h->has_pace = h->is_pruned = false;
	return true;
}

bool clock_history_keep_until(struct clock_history *h, int64_t until_ns)
{
	return keep_until(h, (double)(until_ns - h->x0_ns) + 1);
}

/* The last of these bounds that the other history contradicts at any rate; -INFINITY = none. */
static double last_against(const struct clock_history *h, const struct bounds *b, int sign,
			   const struct clock_history *next)
{
	double dx = (double)(next->x0_ns - h->x0_ns), dv = (double)(next->v0_ns - h->v0_ns);

	for (size_t i = b->n; i-- > 0;) {
		struct interval in = any_rate_at(next, b->at[i].x - dx);
		double v = b->at[i].v - dv;

		if (sign > 0 ? v > in.hi : v < in.lo)
			return b->at[i].x;
	}
	return -INFINITY;
}

void clock_history_cut(struct clock_history *h, const struct clock_history *next)
{
	double width, last;

	if (next->cause == CLOCK_BREAK_RATE) {
		width = fmin(h->certain.hi - h->certain.lo, ENVELOPE_REACH_NS * CLOCK_STRAY_MAX);
		last = (double)(h->last_ns - h->x0_ns) - CUT_NS - 2 * width / CLOCK_STRAY_MAX;
		(void)keep_until(h, last);
		return;
	}
	last = fmax(last_against(h, &h->low, 1, next), last_against(h, &h->high, -1, next));
	(void)keep_until(h, last + 1);
}

void clock_history_expire(struct clock_history *h, int64_t before_ns)
{
	bounds_expire(&h->low, (double)(before_ns - h->x0_ns));
	bounds_expire(&h->high, (double)(before_ns - h->x0_ns));
	h->is_pruned = false;
	if (h->first_ns < before_ns)
		h->first_ns = before_ns < h->last_ns ? before_ns : h->last_ns;
}

/* ---- the pace ---- */

double clock_pace_any(const struct clock_pace *p)
{
	return CLOCK_DRIFT_MAX + fabs(p->pace.rate);
}

/* Times that have a bound, because intervals are narrowest there; the two ends, which make the
 * longest base for a rate, are among them. */
static void make_grid(const struct clock_history *h, double from, struct grid *g)
{
	const struct bounds *b = &h->low;
	size_t i = bounds_from(b, from);
	double last = b->at[b->n - 1].x, step;

	if (i == b->n)
		i = 0;
	step = fmax(GRID_NS, (last - b->at[i].x) / (GRID - 2));
	g->n = 0;
	for (; i < b->n; i++) {
		if (!g->n || b->at[i].x - g->x[g->n - 1] >= step)
			g->x[g->n++] = b->at[i].x;
	}
	if (g->x[g->n - 1] < last)
		g->x[g->n++] = last;
}

/* The mean rate between two times, for the two that prove it most tightly while the rate is within
 * `any`; `best` if none prove it better. */
static struct pace prove_rate(const struct clock_history *h, const struct grid *g, struct pace any,
			      struct pace best)
{
	struct interval at[RATES];
	double x[RATES];
	size_t n = g->n < RATES ? g->n : RATES;

	for (size_t i = 0; i < n; i++) {
		x[i] = g->x[n > 1 ? i * (g->n - 1) / (n - 1) : 0];
		if (!envelope_at(&h->low, &h->high, x[i], any, &at[i]))
			return best;
	}
	for (size_t j = 0; j < n; j++) {
		for (size_t i = 0; i < j; i++) {
			double dt = x[j] - x[i];
			double least = (at[j].lo - at[i].hi) / dt;
			double most = (at[j].hi - at[i].lo) / dt;

			if (dt >= RATE_BASE_NS && most >= least && most - least < 2 * best.drift)
				best = (struct pace){ (most + least) / 2, (most - least) / 2 };
		}
	}
	return best;
}

static bool is_contradicted_at(const struct clock_history *h, double x, struct pace p)
{
	struct interval in;

	return envelope_at(&h->low, &h->high, x, p, &in) && in.lo > in.hi;
}

/* The smallest wander that contradicts nothing was still wrong in trials; twice that was right
 * in every trial. Where neighbouring bounds are further apart than a bound reaches, a
 * contradiction shows in the middle between them. */
static double find_wander(const struct clock_history *h, const struct grid *g, struct pace proved)
{
	struct pace p = { proved.rate, proved.drift + WANDER_FIRST };

	for (size_t i = 0; i < g->n; i++) {
		double gap = i ? g->x[i] - g->x[i - 1] : 0;

		while (p.drift < 2 * CLOCK_DRIFT_MAX &&
		       (is_contradicted_at(h, g->x[i], p) ||
			(gap > 2 * GRID_NS && is_contradicted_at(h, g->x[i] - gap / 2, p))))
			p.drift = proved.drift + (p.drift - proved.drift) * WANDER_STEP;
	}
	return fmax(2 * (p.drift - proved.drift), WANDER_LEAST);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(const double *v, size_t n)
{
	double sorted[HIDE_MEDIAN];

	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*v), by_value);
	return sorted[n / 2];
}

/*
 * A wander is hidden while it moves the offset by less than the interval's width, so the bounds of a
 * wide interval contradict each other late. Links change: the wander that they can hide is found for
 * each time.
 */
static void find_hidden_wander(const struct clock_history *h, const struct grid *g,
			       struct clock_pace *p)
{
	double half[GRID], median[GRID];
	size_t from = 0, to = 0;

	p->hidden = xrealloc(p->hidden, g->n * sizeof(*p->hidden));
	p->n_hidden = g->n;
	for (size_t i = 0; i < g->n; i++) {
		struct interval in = { 0, 0 };

		(void)envelope_at(&h->low, &h->high, g->x[i], p->pace, &in);
		half[i] = fmax(in.hi - in.lo, 0) / 2;
	}
	for (size_t i = 0; i < g->n; i++) {
		size_t n = g->n < HIDE_MEDIAN ? g->n : HIDE_MEDIAN;
		size_t first = i < n / 2 ? 0 : i - n / 2;

		median[i] = median_of(&half[first + n > g->n ? g->n - n : first], n);
	}
	for (size_t i = 0; i < g->n; i++) {
		double most = 0;

		while (g->x[i] - g->x[from] > HIDE_NEAR_NS)
			from++;
		while (to < g->n && g->x[to] - g->x[i] <= HIDE_NEAR_NS)
			to++;
		for (size_t j = from; j < to; j++)
			most = fmax(most, median[j]);
		p->hidden[i] = (struct clock_hidden){ g->x[i], HIDE * most / ENVELOPE_REACH_NS };
	}
}

/* Around x, the drift on top of pace.drift. */
static double hidden_at(const struct clock_pace *p, double x)
{
	size_t low = 0, high = p->n_hidden;
	double most;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (p->hidden[mid].x <= x)
			low = mid;
		else
			high = mid;
	}
	most = p->hidden[low].drift;
	if (high < p->n_hidden)
		most = fmax(most, p->hidden[high].drift);
	most = fmin(most, fmin(CLOCK_STRAY_MAX, clock_pace_any(p) - p->proved));
	return fmax(0, p->proved + most - p->pace.drift);
}

/* At the limit: any rate. */
static void limit_pace(struct clock_pace *p)
{
	if (p->pace.drift > CLOCK_DRIFT_MAX)
		p->pace = (struct pace){ 0, CLOCK_DRIFT_MAX };
}

static void find_pace_at(struct clock_history *h, const struct grid *g, struct pace proved)
{
	struct clock_pace *p = &h->pace;
	double wander;

	p->proved = proved.drift;
	p->wander = find_wander(h, g, proved);
	wander = fmax(p->wander,
		      fmin(WANDER_LEAST * WANDER_SPAN_NS / fmax(p->span_ns, 1), CLOCK_STRAY_MAX));
	p->pace = (struct pace){ proved.rate, proved.drift + wander };
	limit_pace(p);
	find_hidden_wander(h, g, p);
}

/* The rate is proved once more with intervals at the pace that was found: these are narrower. */
static void find_pace(struct clock_history *h, const struct grid *g)
{
	const struct pace any = { 0, CLOCK_DRIFT_MAX };
	struct clock_pace *p = &h->pace;
	struct pace found, proved = prove_rate(h, g, any, any);

	p->span_ns = g->x[g->n - 1] - g->x[0];
	find_pace_at(h, g, proved);
	found = p->pace;
	for (size_t i = 0; i < p->n_hidden; i++)
		found.drift = fmax(found.drift, p->proved + p->hidden[i].drift);
	if (found.drift < CLOCK_DRIFT_MAX)
		find_pace_at(h, g, prove_rate(h, g, found, proved));
}

const struct clock_pace *clock_history_pace(struct clock_history *h, int64_t from_ns)
{
	struct grid g;

	if (h->has_pace && llabs(from_ns - h->pace_from_ns) < PACE_REUSE_NS)
		return &h->pace;
	if (!h->low.n || !h->high.n)
		return NULL;
	make_grid(h, (double)(from_ns - h->x0_ns), &g);
	find_pace(h, &g);
	h->has_pace = true;
	h->pace_from_ns = from_ns;
	return &h->pace;
}

/* ---- the map ---- */

/* The middle follows a wandering clock. Where the interval is wider than any bend that the
 * wander makes within reach, a line is the better guess. */
static double guess_at(const struct clock_history *h, const struct clock_pace *p, double x,
		       struct interval in)
{
	double middle = in.lo + (in.hi - in.lo) / 2;
	double line;

	if ((in.hi - in.lo) / 2 <= p->wander * 2 * ENVELOPE_REACH_NS / 8 ||
	    !envelope_line(&h->low, &h->high, x, &line))
		return middle;
	return fmin(fmax(line, in.lo), in.hi);
}

static void set_knot(const struct clock_history *h, const struct clock_pace *p, int64_t at_ns,
		     struct interval in, struct clock_knot *out)
{
	*out = (struct clock_knot){
		.host_ns = at_ns,
		.lo_ns = h->v0_ns + (int64_t)floor(in.lo) - 1,
		.hi_ns = h->v0_ns + (int64_t)ceil(in.hi) + 1,
		.offset_ns = h->v0_ns + llround(guess_at(h, p, (double)(at_ns - h->x0_ns), in)),
	};
}

static void prune(struct clock_history *h)
{
	if (h->is_pruned)
		return;
	bounds_prune(&h->low, 1, &h->tight_low);
	bounds_prune(&h->high, -1, &h->tight_high);
	h->is_pruned = true;
}

bool clock_history_knot(struct clock_history *h, const struct clock_pace *p, int64_t at_ns,
			struct clock_knot *out, struct bend *bend)
{
	prune(h);
	if (!bend_at(&h->tight_low, &h->tight_high, (double)(at_ns - h->x0_ns), bend))
		return false;
	set_knot(h, p, at_ns, bend->at, out);
	return true;
}

bool clock_history_now(const struct clock_history *h, const struct clock_pace *p, int64_t at_ns,
		       struct clock_knot *out, double *drift)
{
	const struct pace any = { 0, CLOCK_RATE_MAX };
	double x = (double)(at_ns - h->x0_ns), near = p->pace.drift + hidden_at(p, x);
	struct pace pace = { p->pace.rate, near };
	struct interval in;

	*drift = fmin(BEYOND * near, clock_pace_any(p));
	if (at_ns > h->last_ns || at_ns < h->first_ns)
		pace.drift = *drift;
	if (!envelope_at(&h->low, &h->high, x, pace, &in))
		return false;
	if (in.lo > in.hi && (!envelope_at(&h->low, &h->high, x, any, &in) || in.lo > in.hi))
		return false;
	set_knot(h, p, at_ns, in, out);
	return true;
}

/* The middle of two bounds of about the same time. */
static bool middle_at(const struct clock_history *h, size_t i, struct bound *out)
{
	struct bound low = h->low.at[i];
	size_t j = bounds_from(&h->high, low.x);

	if (j == h->high.n || h->high.at[j].x - low.x > NEAR_NS)
		return false;
	*out = (struct bound){ low.x, (low.v + h->high.at[j].v) / 2 };
	return true;
}

/* How far a probe is from the line through the one before and the one after. */
static bool residual_at(const struct clock_history *h, size_t i, double *out)
{
	struct bound a, b, c;

	if (!middle_at(h, i - 1, &a) || !middle_at(h, i, &b) || !middle_at(h, i + 1, &c))
		return false;
	*out = fabs(b.v - a.v - (c.v - a.v) / (c.x - a.x) * (b.x - a.x));
	return true;
}

int64_t clock_history_jitter_ns(const struct clock_history *h, int64_t from_ns, int64_t to_ns)
{
	size_t i = bounds_from(&h->low, (double)(from_ns - h->x0_ns)) + 1;
	size_t end = bounds_from(&h->low, (double)(to_ns - h->x0_ns) + 1);
	size_t step = end > i ? 1 + (end - i) / JITTERS : 1;
	double r[JITTERS];
	size_t n = 0;

	for (; i + 1 < end && n < JITTERS; i += step)
		n += residual_at(h, i, &r[n]);
	if (!n)
		return 0;
	qsort(r, n, sizeof(r[0]), by_value);
	/* A residual combines three probes of the same spread, weighted 1, 1/2 and 1/2. */
	return llround(r[n / 2] / sqrt(1.5));
}
