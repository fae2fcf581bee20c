/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the pace and the jitter of a history.
 *
 * The pace is found in two passes. The first assumes only CLOCK_DRIFT_MAX: it gives wide but certain
 * intervals, and each two of them give an interval for the mean rate in between. The second also needs a
 * limit for how far the rate strays from that mean (its wander), which no bound proves. The limit is twice
 * the smallest wander at which the bounds do not contradict each other, and at least what the bounds could
 * hide. docs/time.md has the reasons.
 */
#include "agent/clock/history.h"

#include <math.h>
#include <stdlib.h>

#include "agent/clock/arith.h"
#include "base/mem.h"
#include "base/now.h"

#define GRID	4096 /* the most instants that the passes examine: one a second for an hour */
#define GRID_NS 1e9 /* least distance of these instants */
#define RATES	128 /* how many of these instants are compared with each other */
#define JITTERS 128 /* how many probes the jitter is made from */
#define NEAR_NS 100e6 /* two bounds this close are of about the same time */
/* A pace whose samples begin this much earlier or later is used again. */
#define PACE_REUSE_NS (5 * NS_PER_S)

#define WANDER_FIRST 0.5e-6
#define WANDER_STEP  1.25
#define WANDER_LEAST 1e-6
/* A history of this length shows its crystal's wander; for a shorter one the wander is raised in proportion. */
#define WANDER_SPAN_NS 120e9

/* A wander stays hidden if, within a bound's reach, it moves the offset by less than this many times half the
 * interval's width. 2 was too small in trials with steps of the rate on a link with jitter. */
#define HIDDEN_FACTOR 4
#define HIDDEN_MEDIAN 5 /* the median width of this many intervals counts */
/* of the medians within this distance of an instant, the largest counts */
#define HIDDEN_NEAR_NS 5e9

struct grid {
	struct envelope at[GRID];
	size_t n;
};

double clock_pace_max_drift(const struct clock_pace *p)
{
	return CLOCK_DRIFT_MAX + fabs(p->pace.rate);
}

static void add_to_grid(const struct clock_history *h, double x, struct grid *g)
{
	g->at[g->n++] = envelope_near(&h->low, &h->high, x);
}

/* Chooses times of bounds, because intervals are narrowest there. Both ends are among them, since they give
 * the longest base for a rate. */
static void make_grid(const struct clock_history *h, double from, struct grid *g)
{
	const struct bounds *b = &h->low;
	size_t i = bounds_from(b, from);
	double last = b->at[b->n - 1].x, step;

	if (i == b->n)
		i = 0;
	step = larger(GRID_NS, (last - b->at[i].x) / (GRID - 2));
	g->n = 0;
	for (; i < b->n; i++) {
		if (!g->n || b->at[i].x - g->at[g->n - 1].x >= step)
			add_to_grid(h, b->at[i].x, g);
	}
	if (g->at[g->n - 1].x < last)
		add_to_grid(h, last, g);
}

static struct interval interval_at(const struct clock_history *h, const struct envelope *e,
				   struct pace p)
{
	return envelope_interval(&h->low, &h->high, e, p);
}

/* Of all pairs of times, the pair that proves the mean rate in between most tightly, while rates are within
 * `any`. Returns `best` if no pair proves it better. */
static struct pace prove_rate(const struct clock_history *h, const struct grid *g, struct pace any,
			      struct pace best)
{
	struct interval at[RATES];
	double x[RATES];
	size_t n = g->n < RATES ? g->n : RATES;

	for (size_t i = 0; i < n; i++) {
		const struct envelope *e = &g->at[n > 1 ? i * (g->n - 1) / (n - 1) : 0];

		x[i] = e->x;
		at[i] = interval_at(h, e, any);
	}
	for (size_t j = 0; j < n; j++) {
		for (size_t i = 0; i < j; i++) {
			double dt = x[j] - x[i];
			double least = (at[j].lo - at[i].hi) / dt;
			double most = (at[j].hi - at[i].lo) / dt;

			if (dt >= CLOCK_RATE_BASE_NS && most >= least &&
			    most - least < 2 * best.drift)
				best = (struct pace){ (most + least) / 2, (most - least) / 2 };
		}
	}
	return best;
}

static bool is_contradicted_at(const struct clock_history *h, const struct envelope *e,
			       struct pace p)
{
	struct interval in = interval_at(h, e, p);

	return in.lo > in.hi;
}

/* In trials the smallest wander without a contradiction was too small; twice that was right in every trial.
 * If bounds are further apart than their reach, a contradiction shows only in the middle between them. */
static double find_wander(const struct clock_history *h, const struct grid *g, struct pace proved)
{
	struct pace p = { proved.rate, proved.drift + WANDER_FIRST };

	for (size_t i = 0; i < g->n; i++) {
		double gap = i ? g->at[i].x - g->at[i - 1].x : 0;
		bool is_long = gap > 2 * GRID_NS;
		struct envelope middle = { 0 };

		if (is_long)
			middle = envelope_near(&h->low, &h->high, g->at[i].x - gap / 2);
		while (p.drift < 2 * CLOCK_DRIFT_MAX &&
		       (is_contradicted_at(h, &g->at[i], p) ||
			(is_long && is_contradicted_at(h, &middle, p))))
			p.drift = proved.drift + (p.drift - proved.drift) * WANDER_STEP;
	}
	return larger(2 * (p.drift - proved.drift), WANDER_LEAST);
}

static double median_of(const double *v, size_t n)
{
	double sorted[HIDDEN_MEDIAN];

	for (size_t i = 0, at; i < n; i++) {
		for (at = i; at && sorted[at - 1] > v[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = v[i];
	}
	return sorted[n / 2];
}

/*
 * The wider an interval, the more wander its bounds can hide before they contradict each other. Links change,
 * so what they can hide is computed for each time.
 */
static void find_hidden_wander(const struct clock_history *h, const struct grid *g,
			       struct clock_pace *p)
{
	double half[GRID], median[GRID];
	size_t from = 0, to = 0;

	p->hidden = xrealloc(p->hidden, g->n * sizeof(*p->hidden));
	p->n_hidden = g->n;
	for (size_t i = 0; i < g->n; i++) {
		struct interval in = interval_at(h, &g->at[i], p->pace);

		half[i] = larger(in.hi - in.lo, 0) / 2;
	}
	for (size_t i = 0; i < g->n; i++) {
		size_t n = g->n < HIDDEN_MEDIAN ? g->n : HIDDEN_MEDIAN;
		size_t first = i < n / 2 ? 0 : i - n / 2;

		median[i] = median_of(&half[first + n > g->n ? g->n - n : first], n);
	}
	for (size_t i = 0; i < g->n; i++) {
		double most = 0;

		while (g->at[i].x - g->at[from].x > HIDDEN_NEAR_NS)
			from++;
		while (to < g->n && g->at[to].x - g->at[i].x <= HIDDEN_NEAR_NS)
			to++;
		for (size_t j = from; j < to; j++)
			most = larger(most, median[j]);
		p->hidden[i] = (struct clock_hidden){ g->at[i].x,
						      HIDDEN_FACTOR * most / ENVELOPE_REACH_NS };
	}
}

double clock_pace_hidden(const struct clock_pace *p, double x)
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
		most = larger(most, p->hidden[high].drift);
	most = smaller(most, smaller(CLOCK_STRAY_MAX, clock_pace_max_drift(p) - p->proved));
	return larger(0, p->proved + most - p->pace.drift);
}

/* The wander is at its limit: any rate is possible. */
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
	wander = larger(p->wander, smaller(WANDER_LEAST * WANDER_SPAN_NS / larger(p->span_ns, 1),
					   CLOCK_STRAY_MAX));
	p->pace = (struct pace){ proved.rate, proved.drift + wander };
	limit_pace(p);
	find_hidden_wander(h, g, p);
}

/* Proves the rate again with the intervals at the pace just found, which are narrower. */
static void find_pace(struct clock_history *h, const struct grid *g)
{
	const struct pace any = { 0, CLOCK_DRIFT_MAX };
	struct clock_pace *p = &h->pace;
	struct pace found, proved = prove_rate(h, g, any, any);

	p->span_ns = g->at[g->n - 1].x - g->at[0].x;
	find_pace_at(h, g, proved);
	found = p->pace;
	for (size_t i = 0; i < p->n_hidden; i++)
		found.drift = larger(found.drift, p->proved + p->hidden[i].drift);
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

/* ---- the jitter ---- */

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

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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
	/* A residual is one probe minus half of each neighbour: its spread is sqrt(1.5) times that of a
	 * probe. */
	return llround(r[n / 2] / sqrt(1.5));
}
