/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/envelope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/arith.h"
#include "base/mem.h"

#define BUCKET_NS 10e6
/* bounds of one direction: enough for an hour of single probes on a jittery link; more are thinned out */
#define BUCKETS		65536
#define BEND_NS		10e9 /* between the times that show how the offset bends */
#define HULL_BOUNDS_MAX 1024 /* a time with more bounds than this in its reach gets no line */

/* ---- buckets ---- */

void bounds_free(struct bounds *b)
{
	free(b->at);
	*b = (struct bounds){ 0 };
}

size_t bounds_from(const struct bounds *b, double x)
{
	size_t first = 0, n = b->n;

	/* Without branches: which half it is cannot be predicted. */
	while (n) {
		size_t half = n / 2;
		bool in_second = b->at[first + half].x < x;

		first += in_second ? half + 1 : 0;
		n = in_second ? n - half - 1 : half;
	}
	return first;
}

size_t bounds_from_near(const struct bounds *b, double x, size_t near)
{
	size_t i = near < b->n ? near : b->n;

	while (i < b->n && b->at[i].x < x)
		i++;
	while (i && b->at[i - 1].x >= x)
		i--;
	return i;
}

void bounds_expire(struct bounds *b, double before)
{
	size_t expired = bounds_from(b, before);

	b->n -= expired;
	if (expired && b->n)
		memmove(b->at, b->at + expired, b->n * sizeof(*b->at));
}

static bool is_tighter(struct bound a, struct bound b, int sign, double rate)
{
	return sign * (a.v - b.v - rate * (a.x - b.x)) > 0;
}

/* Thins out the older half: of each two neighbours, keeps the tighter one. */
static void bounds_thin(struct bounds *b, int sign, double rate)
{
	size_t half = b->n / 2 & ~(size_t)1, kept = 0;

	for (size_t i = 0; i < half; i += 2) {
		bool second = is_tighter(b->at[i + 1], b->at[i], sign, rate);

		b->at[kept++] = b->at[i + second];
	}
	memmove(b->at + kept, b->at + half, (b->n - half) * sizeof(*b->at));
	b->n -= half - kept;
}

static void bounds_insert(struct bounds *b, size_t i, struct bound new)
{
	if (b->n == b->cap) {
		b->cap = b->cap ? 2 * b->cap : 64;
		b->at = xrealloc(b->at, b->cap * sizeof(*b->at));
	}
	memmove(b->at + i + 1, b->at + i, (b->n - i) * sizeof(*b->at));
	b->at[i] = new;
	b->n++;
}

static int64_t bucket_of(double x)
{
	double bucket = x / BUCKET_NS;
	int64_t whole = (int64_t)bucket;

	return whole - ((double)whole > bucket);
}

void bounds_add(struct bounds *b, struct bound new, int sign, double rate)
{
	size_t i = b->n;

	/* Most are in a bucket of their own, after all others. */
	if (i && new.x - b->at[i - 1].x < BUCKET_NS) {
		int64_t bucket = bucket_of(new.x), last = bucket + 1;

		while (i && (last = bucket_of(b->at[i - 1].x)) > bucket)
			i--;
		if (i && last == bucket) {
			if (is_tighter(new, b->at[i - 1], sign, rate))
				b->at[i - 1] = new;
			return;
		}
	}
	bounds_insert(b, i, new);
	if (b->n >= BUCKETS)
		bounds_thin(b, sign, rate);
}

/* ---- the envelope ---- */

struct range {
	uint32_t from, to; /* indices from, up to but without `to` */
};

static struct range range_near(const struct bounds *b, double x)
{
	double first = b->at[0].x, last = b->at[b->n - 1].x;
	double at = x < first ? first : x > last ? last : x;
	double from = smaller(at - ENVELOPE_REACH_NS, last - 2 * ENVELOPE_REACH_NS);
	double to = larger(at + ENVELOPE_REACH_NS, first + 2 * ENVELOPE_REACH_NS);
	size_t next = bounds_from(b, at);

	/* In a gap without bounds: takes the bounds right before and right after it. */
	if (next && b->at[next - 1].x < from)
		from = b->at[next - 1].x - ENVELOPE_REACH_NS;
	if (next < b->n && b->at[next].x > to)
		to = b->at[next].x + ENVELOPE_REACH_NS;
	return (struct range){ (uint32_t)bounds_from(b, from), (uint32_t)bounds_from(b, to + 1) };
}

/* What one bound says of sign * offset at x: it is at least this. */
static inline double reach_of(struct bound b, double x, struct pace p, double sign)
{
	double d = x - b.x;

	return sign * (b.v + p.rate * d) - p.drift * fabs(d);
}

/* What all bounds near x say of sign * offset there. */
static inline double tightest_at(const struct bounds *b, struct range r, double x, struct pace p,
				 double sign)
{
	const struct bound *at = b->at + r.from, *end = b->at + r.to;
	/* four, since each comparison waits for the last one */
	double most[4] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY };

	for (; end - at >= 4; at += 4) {
		for (int i = 0; i < 4; i++)
			most[i] = larger(reach_of(at[i], x, p, sign), most[i]);
	}
	for (; at < end; at++)
		most[0] = larger(reach_of(*at, x, p, sign), most[0]);
	return larger(larger(most[0], most[1]), larger(most[2], most[3]));
}

struct envelope envelope_near(const struct bounds *low, const struct bounds *high, double x)
{
	struct range l = range_near(low, x), h = range_near(high, x);

	return (struct envelope){ x, l.from, l.to, h.from, h.to };
}

struct interval envelope_interval(const struct bounds *low, const struct bounds *high,
				  const struct envelope *e, struct pace p)
{
	struct range l = { e->low_from, e->low_to }, h = { e->high_from, e->high_to };

	return (struct interval){ tightest_at(low, l, e->x, p, 1),
				  -tightest_at(high, h, e->x, p, -1) };
}

bool envelope_at(const struct bounds *low, const struct bounds *high, double x, struct pace p,
		 struct interval *out)
{
	struct envelope e;

	if (!low->n || !high->n)
		return false;
	e = envelope_near(low, high, x);
	*out = envelope_interval(low, high, &e, p);
	return true;
}

/* ---- the line ---- */

/* The edge of a hull, and where a line through it is at the time that was asked for. */
struct edge {
	double from, to, v;
};

/*
 * Of all lines that no bound crosses, takes the one with the least sum of distances to the bounds. It is the
 * edge of the convex hull at the bounds' mean time (Moon, Skelly, Towsley).
 */
static bool edge_at(const struct bounds *b, double x, int sign, struct edge *out)
{
	struct range r = range_near(b, x);
	struct bound hull[HULL_BOUNDS_MAX];
	double mean = 0;
	size_t n = 0;

	if (r.to - r.from < 3 || r.to - r.from > HULL_BOUNDS_MAX)
		return false;
	for (size_t i = r.from; i < r.to; i++) {
		mean += b->at[i].x / (double)(r.to - r.from);
		while (n >= 2 && bound_is_inside_hull(hull[n - 2], hull[n - 1], b->at[i], sign))
			n--;
		hull[n++] = b->at[i];
	}
	for (size_t i = 0; i + 1 < n; i++) {
		const struct bound *e = &hull[i];

		if (e[0].x > mean || e[1].x < mean)
			continue;
		*out = (struct edge){
			.from = e->x,
			.to = e[1].x,
			.v = e->v + (e[1].v - e->v) / (e[1].x - e->x) * (x - e->x),
		};
		return true;
	}
	return false;
}

/* Both lines at x. */
struct lines {
	struct edge above, below;
};

static bool lines_at(const struct bounds *low, const struct bounds *high, double x,
		     struct lines *out)
{
	return edge_at(low, x, 1, &out->above) && edge_at(high, x, -1, &out->below);
}

static double middle_of(const struct lines *l)
{
	return (l->above.v + l->below.v) / 2;
}

/* How the offset bends around x, as its second derivative: the middles BEND_NS before, at and after it. Near an end of the
 * bounds, the bend at the nearest time that has both neighbours. 0 for too few bounds. */
static double second_derivative(const struct bounds *low, const struct bounds *high, double x)
{
	double first = larger(low->at[0].x, high->at[0].x) + BEND_NS;
	double last = smaller(low->at[low->n - 1].x, high->at[high->n - 1].x) - BEND_NS;
	struct lines before, at, after;

	x = smaller(larger(x, first), last);
	if (first > last || !lines_at(low, high, x - BEND_NS, &before) ||
	    !lines_at(low, high, x, &at) || !lines_at(low, high, x + BEND_NS, &after))
		return 0;
	return (middle_of(&before) - 2 * middle_of(&at) + middle_of(&after)) / BEND_NS / BEND_NS;
}

/* How far a chord is above what bends by one per square of the time between the ends of this edge. */
static double sag_of(struct edge e, double x)
{
	return (x - e.from) * (e.to - x) / 2;
}

bool envelope_line(const struct bounds *low, const struct bounds *high, double x, double *v)
{
	struct lines at;
	double sag;

	if (!low->n || !high->n || !lines_at(low, high, x, &at))
		return false;
	sag = (sag_of(at.above, x) + sag_of(at.below, x)) / 2;
	*v = middle_of(&at) - second_derivative(low, high, x) * sag;
	return true;
}
