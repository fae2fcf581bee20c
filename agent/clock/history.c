/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one-sided bounds to a pace, in two passes. The first assumes only CLOCK_DRIFT_MAX: it gives
 * intervals that are wide and certain, and each two of them give an interval for the mean rate in
 * between. The second needs how far the rate strays from that mean, which no bound can prove. It is
 * the smallest stray at which the bounds do not contradict each other, taken twice, and never less
 * than what the bounds could hide. docs/time.md has the reasons.
 */
#include "agent/clock/history.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"

#define GRID	     128 /* times that the passes examine */
#define GRID_NS	     1e9 /* their least distance */
#define PACE_FROM_NS (5 * NS_PER_S) /* a pace since this long before or after will do */
#define RATE_BASE_NS 2e9 /* least distance of two intervals that make a rate */
/* Beyond the probes the rate may stray this many times as far. */
#define BEYOND	3
#define NEAR_NS 100e6 /* two bounds of about the same time */

#define WANDER_FIRST 0.5e-6
#define WANDER_STEP  1.25
#define WANDER_LEAST 1e-6
/* A history of this length shows how its crystal wanders; a shorter one gets more, in
 * proportion. */
#define WANDER_SPAN_NS 120e9

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
	h->rtt_min_ns = -1;
	return h;
}

void clock_history_free(struct clock_history *h)
{
	if (!h)
		return;
	bounds_free(&h->low);
	bounds_free(&h->high);
	free(h);
}

/* ---- samples ---- */

static bool has_bounds(const struct clock_history *h)
{
	return h->low.n || h->high.n;
}

/* What the history allows at x at any pace within CLOCK_DRIFT_MAX. */
static struct interval allowed_at(const struct clock_history *h, double x)
{
	double far = CLOCK_DRIFT_MAX * fabs(x - h->certain_x);

	return (struct interval){ h->certain.lo - far, h->certain.hi + far };
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

bool clock_history_contradicts(const struct clock_history *h, const struct clock_sample *s)
{
	struct bound low = low_of(h, s), high = high_of(h, s);

	if (!has_bounds(h))
		return false;
	return (!s->no_request && low.v > allowed_at(h, low.x).hi) ||
	       (!s->no_reply && high.v < allowed_at(h, high.x).lo);
}

static void narrow_certain(struct clock_history *h, double x, double lo, double hi)
{
	double moved;

	if (x > h->certain_x) {
		h->certain = allowed_at(h, x);
		h->certain_x = x;
	}
	moved = CLOCK_DRIFT_MAX * (h->certain_x - x);
	h->certain.lo = fmax(h->certain.lo, lo - moved);
	h->certain.hi = fmin(h->certain.hi, hi + moved);
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
	h->probes += !s->is_update;
	h->has_pace = false;
}

void clock_history_expire(struct clock_history *h, int64_t before_ns)
{
	bounds_expire(&h->low, (double)(before_ns - h->x0_ns));
	bounds_expire(&h->high, (double)(before_ns - h->x0_ns));
	if (h->first_ns < before_ns)
		h->first_ns = before_ns < h->last_ns ? before_ns : h->last_ns;
}

/* ---- the pace ---- */

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

/* The mean rate between two times, for the two that prove it most tightly. */
static struct pace prove_rate(const struct clock_history *h, const struct grid *g)
{
	const struct pace any = { 0, CLOCK_DRIFT_MAX };
	struct interval at[GRID];
	struct pace best = any;

	for (size_t j = 0; j < g->n; j++) {
		if (!envelope_at(&h->low, &h->high, g->x[j], any, &at[j]))
			return any;
		for (size_t i = 0; i < j; i++) {
			double dt = g->x[j] - g->x[i];
			double least = (at[j].lo - at[i].hi) / dt;
			double most = (at[j].hi - at[i].lo) / dt;

			if (dt >= RATE_BASE_NS && most >= least && most - least < 2 * best.drift)
				best = (struct pace){ (most + least) / 2, (most - least) / 2 };
		}
	}
	return best;
}

static bool is_contradicted(const struct clock_history *h, const struct grid *g, struct pace p)
{
	struct interval in;

	for (size_t i = 0; i < g->n; i++) {
		if (envelope_at(&h->low, &h->high, g->x[i], p, &in) && in.lo > in.hi)
			return true;
	}
	return false;
}

/* The smallest wander that contradicts nothing was still wrong in trials; twice that was right
 * in every trial. */
static double find_wander(const struct clock_history *h, const struct grid *g, struct pace proved)
{
	double wander = WANDER_FIRST;

	while (wander < CLOCK_DRIFT_MAX &&
	       is_contradicted(h, g, (struct pace){ proved.rate, proved.drift + wander }))
		wander *= WANDER_STEP;
	return fmax(2 * wander, WANDER_LEAST);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Bounds that are far apart contradict each other late: a wander is hidden while it moves the
 * offset by less than half the interval's width within one bound's reach.
 */
static double find_hidden_wander(const struct clock_history *h, const struct grid *g, struct pace p)
{
	double half[GRID];
	struct interval in;
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++) {
		if (envelope_at(&h->low, &h->high, g->x[i], p, &in))
			half[n++] = fmax(in.hi - in.lo, 0) / 2;
	}
	if (!n)
		return 0;
	qsort(half, n, sizeof(half[0]), by_value);
	return 2 * half[n / 2] / ENVELOPE_REACH_NS;
}

static void find_pace(struct clock_history *h, const struct grid *g)
{
	struct pace proved = prove_rate(h, g);
	struct clock_pace *p = &h->pace;
	double wander;

	p->span_ns = g->x[g->n - 1] - g->x[0];
	p->wander = find_wander(h, g, proved);
	wander = fmax(p->wander, WANDER_LEAST * WANDER_SPAN_NS / fmax(p->span_ns, 1));
	p->pace = (struct pace){ proved.rate, proved.drift + wander };
	wander = fmax(wander, find_hidden_wander(h, g, p->pace));
	p->pace.drift = proved.drift + wander;
	if (p->pace.drift > CLOCK_DRIFT_MAX)
		p->pace = (struct pace){ 0, CLOCK_DRIFT_MAX };
}

const struct clock_pace *clock_history_pace(struct clock_history *h, int64_t from_ns)
{
	struct grid g;

	if (h->has_pace && llabs(from_ns - h->pace_from_ns) < PACE_FROM_NS)
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

double clock_pace_any(const struct clock_pace *p)
{
	return CLOCK_DRIFT_MAX + fabs(p->pace.rate);
}

double clock_pace_beyond(const struct clock_pace *p)
{
	return fmin(BEYOND * p->pace.drift, clock_pace_any(p));
}

bool clock_history_knot(const struct clock_history *h, const struct clock_pace *p, int64_t at_ns,
			struct clock_knot *out)
{
	const struct pace any = { 0, CLOCK_DRIFT_MAX };
	double x = (double)(at_ns - h->x0_ns);
	struct pace pace = p->pace;
	struct interval in;

	if (at_ns > h->last_ns || at_ns < h->first_ns)
		pace.drift = clock_pace_beyond(p);
	if (!envelope_at(&h->low, &h->high, x, pace, &in))
		return false;
	if (in.lo > in.hi && (!envelope_at(&h->low, &h->high, x, any, &in) || in.lo > in.hi))
		return false;
	out->host_ns = at_ns;
	out->lo_ns = h->v0_ns + (int64_t)floor(in.lo) - 1;
	out->hi_ns = h->v0_ns + (int64_t)ceil(in.hi) + 1;
	out->offset_ns = h->v0_ns + llround(guess_at(h, p, x, in));
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
	size_t step = end > i ? 1 + (end - i) / GRID : 1;
	double r[GRID];
	size_t n = 0;

	for (; i + 1 < end && n < GRID; i += step)
		n += residual_at(h, i, &r[n]);
	if (!n)
		return 0;
	qsort(r, n, sizeof(r[0]), by_value);
	/* A residual combines three probes of the same spread, weighted 1, 1/2 and 1/2. */
	return llround(r[n / 2] / sqrt(1.5));
}
