/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/arith.h"
#include "base/mem.h"
#include "base/now.h"

/* Before the first probe and after the last one, the rate may stray this many times as far as between probes. */
#define BEYOND_FACTOR 3
#define CUT_NS	      20e6 /* clock_history_cut() forgets at least this much: the last train */

/* The cone's rate is the mean over the last one or two of these periods. */
#define ANCHOR_NS 120e9
/* a cone may become wider if its mean rate is known this well */
#define CONE_SURE 20e-6

struct clock_history *clock_history_new(enum clock_break cause, int64_t begin_ns, int64_t sure_ns)
{
	struct clock_history *h = xcalloc(1, sizeof(*h));

	h->cause = cause;
	h->begin_ns = begin_ns;
	h->sure_ns = sure_ns;
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

/* Limits the cone's rates to those that clocks have. */
static struct interval rates_of(struct pace cone)
{
	return (struct interval){ larger(cone.rate - cone.drift, -CLOCK_RATE_MAX),
				  smaller(cone.rate + cone.drift, CLOCK_RATE_MAX) };
}

/* The interval at x that the history allows while the rate stays in the cone. */
static struct interval allowed_at(const struct clock_history *h, double x)
{
	struct interval rate = rates_of(h->cone);
	double d = x - h->certain_x;

	return (struct interval){ h->certain.lo + smaller(rate.lo * d, rate.hi * d),
				  h->certain.hi + larger(rate.lo * d, rate.hi * d) };
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

/* How far a sample is outside its intervals, one for each of its two times; negative: below them. */
static double distance_of(const struct clock_sample *s, struct bound low, struct interval at_low,
			  struct bound high, struct interval at_high)
{
	if (!s->no_request && low.v > at_low.hi)
		return low.v - at_low.hi;
	if (!s->no_reply && high.v < at_high.lo)
		return high.v - at_high.lo;
	return 0;
}

/* The interval near x that bounds prove at any rate; without bounds of both kinds, everything. */
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
	h->certain.lo = larger(h->certain.lo, lo + rate.lo * (h->certain_x - x));
	h->certain.hi = smaller(h->certain.hi, hi + rate.hi * (h->certain_x - x));
}

/* Sets the cone: the intervals now and at the anchor prove the mean rate since then, and a rate strays no
 * further from its mean than CLOCK_STRAY_MAX. */
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
	if (dt < CLOCK_RATE_BASE_NS)
		return;
	least = (h->certain.lo - h->anchor.hi) / dt;
	most = (h->certain.hi - h->anchor.lo) / dt;
	drift = CLOCK_STRAY_MAX + (most - least) / 2;
	if (most >= least && (drift < h->cone.drift || drift < CLOCK_STRAY_MAX + CONE_SURE))
		h->cone = (struct pace){ (most + least) / 2, smaller(drift, CLOCK_DRIFT_MAX) };
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

/* Forgets the requests that may be of before the break. */
static void forget_unsure(struct clock_history *h)
{
	h->is_sure = true;
	if (!h->low.n)
		return;
	h->low.n = 0;
	h->first_ns = h->last_ns;
	h->certain = (struct interval){ -INFINITY, INFINITY };
	h->has_anchor = false;
	for (size_t i = 0; i < h->high.n; i++) {
		narrow_certain(h, h->high.at[i].x, -INFINITY, h->high.at[i].v);
		extend_span(h, h->x0_ns + (int64_t)h->high.at[i].x);
	}
}

static bool counts_request(struct clock_history *h, const struct clock_sample *s)
{
	if (s->no_request)
		return false;
	if (!h->is_sure && s->t1_ns >= h->sure_ns)
		forget_unsure(h);
	return !h->is_sure || s->t1_ns >= h->sure_ns;
}

void clock_history_add(struct clock_history *h, const struct clock_sample *s)
{
	int64_t rtt = (s->t4_ns - s->t1_ns) - (s->t3_ns - s->t2_ns);

	if (!has_bounds(h))
		set_origin(h, s);
	if (counts_request(h, s)) {
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
	h->last_ns = h->x0_ns + (int64_t)larger(h->low.at[low - 1].x, h->high.at[high - 1].x);
	h->has_pace = h->is_pruned = false;
	return true;
}

bool clock_history_keep_until(struct clock_history *h, int64_t until_ns)
{
	return keep_until(h, (double)(until_ns - h->x0_ns) + 1);
}

/* The time of the last of these bounds that the other history contradicts at any rate; -INFINITY = none. */
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
		width = smaller(h->certain.hi - h->certain.lo, ENVELOPE_REACH_NS * CLOCK_STRAY_MAX);
		last = (double)(h->last_ns - h->x0_ns) - CUT_NS - 2 * width / CLOCK_STRAY_MAX;
		(void)keep_until(h, last);
		return;
	}
	last = larger(last_against(h, &h->low, 1, next), last_against(h, &h->high, -1, next));
	(void)keep_until(h, last + 1);
}

struct clock_claim clock_history_claim(const struct clock_history *h)
{
	double span = (double)(h->last_ns - h->first_ns), lo = -INFINITY, hi = INFINITY;

	for (size_t i = 0; i < h->low.n; i++)
		lo = larger(lo, h->low.at[i].v - CLOCK_RATE_MAX * span);
	for (size_t i = 0; i < h->high.n; i++)
		hi = smaller(hi, h->high.at[i].v + CLOCK_RATE_MAX * span);
	lo = isfinite(lo) ? lo : hi;
	hi = isfinite(hi) ? hi : lo;
	return (struct clock_claim){
		.when = { h->first_ns, h->last_ns },
		.lo_ns = h->v0_ns + (int64_t)floor(lo) - 1,
		.hi_ns = h->v0_ns + (int64_t)ceil(hi) + 1,
	};
}

/* Times of the bounds on one side of a claim; infinitely far away if there are none. */
struct side_distances {
	double closest; /* the further of the closest lower bound and the closest upper bound */
	double against; /* the closest bound that contradicts the claim at any rate */
};

/* `after`: +1 for the bounds after the claim, -1 for those before. `sign` as in bounds_add(). */
static void scan_side(const struct clock_history *h, const struct bounds *b, int sign, int after,
		      const struct clock_claim *c, struct side_distances *out)
{
	double x = (double)((after > 0 ? c->when.to_ns : c->when.from_ns) - h->x0_ns);
	double v = (double)((sign > 0 ? c->hi_ns : c->lo_ns) - h->v0_ns);
	size_t first = bounds_from(b, after > 0 ? x + 1 : x), n = after > 0 ? b->n - first : first;

	if (!n)
		out->closest = INFINITY;
	for (size_t i = 0; i < n; i++) {
		const struct bound *at = &b->at[after > 0 ? first + i : first - 1 - i];
		double far = fabs(at->x - x);

		if (!i)
			out->closest = larger(out->closest, far);
		if (sign * (at->v - v) > CLOCK_RATE_MAX * far)
			out->against = smaller(out->against, far);
		if (far > out->against || far > 2 * ENVELOPE_REACH_NS)
			return;
	}
}

static double gap_distance(const struct clock_history *h, int after, const struct clock_claim *c)
{
	struct side_distances out = { 0, INFINITY };

	scan_side(h, &h->low, 1, after, c, &out);
	scan_side(h, &h->high, -1, after, c, &out);
	return isfinite(out.against) ? out.against : out.closest;
}

struct clock_part clock_history_gap_around(const struct clock_history *h,
					   const struct clock_claim *c)
{
	double before = gap_distance(h, -1, c), after = gap_distance(h, 1, c);

	return (struct clock_part){
		isfinite(before) ? c->when.from_ns - llround(before) : INT64_MIN,
		isfinite(after) ? c->when.to_ns + llround(after) : INT64_MAX,
	};
}

void clock_history_expire(struct clock_history *h, int64_t before_ns)
{
	bounds_expire(&h->low, (double)(before_ns - h->x0_ns));
	bounds_expire(&h->high, (double)(before_ns - h->x0_ns));
	h->is_pruned = false;
	if (h->first_ns < before_ns)
		h->first_ns = before_ns < h->last_ns ? before_ns : h->last_ns;
}

/* ---- the map ---- */

/* The best guess is the interval's middle, which follows a wandering clock. But where the interval is wider
 * than the offset can bend by the clock's wander, envelope_line() is the better guess. */
static double guess_at(const struct clock_history *h, const struct clock_pace *p, double x,
		       struct interval in)
{
	double middle = in.lo + (in.hi - in.lo) / 2;
	double line;

	if ((in.hi - in.lo) / 2 <= p->wander * 2 * ENVELOPE_REACH_NS / 8 ||
	    !envelope_line(&h->low, &h->high, x, &line))
		return middle;
	return smaller(larger(line, in.lo), in.hi);
}

static struct clock_way way_of(struct interval all, struct interval way)
{
	return (struct clock_way){ .cut_lo_ns = (int64_t)(way.lo - all.lo),
				   .cut_hi_ns = (int64_t)(all.hi - way.hi) };
}

static void set_interval(const struct clock_history *h, struct interval in, struct clock_knot *k)
{
	k->lo_ns = h->v0_ns + (int64_t)floor(in.lo) - 1;
	k->hi_ns = h->v0_ns + (int64_t)ceil(in.hi) + 1;
}

static void set_guess(const struct clock_history *h, const struct clock_pace *p, struct interval in,
		      struct clock_knot *k)
{
	k->offset_ns = h->v0_ns + llround(guess_at(h, p, (double)(k->host_ns - h->x0_ns), in));
}

static void prune(struct clock_history *h)
{
	if (h->is_pruned)
		return;
	bounds_prune(&h->low, 1, &h->tight_low);
	bounds_prune(&h->high, -1, &h->tight_high);
	h->is_pruned = true;
}

/* Borrowed: not to be freed. */
static struct bounds part_of(const struct clock_history *h, const struct bounds *b,
			     struct clock_part part)
{
	size_t from = bounds_from(b, (double)((wide)part.from_ns - h->x0_ns));
	size_t to = bounds_from(b, (double)((wide)part.to_ns - h->x0_ns) + 1);

	return (struct bounds){ .at = b->at + from, .n = to > from ? to - from : 0 };
}

struct clock_evidence clock_history_evidence(struct clock_history *h, const struct clock_pace *p,
					     struct clock_part part)
{
	prune(h);
	return (struct clock_evidence){
		.history = h,
		.pace = p,
		.low = part_of(h, &h->tight_low, part),
		.high = part_of(h, &h->tight_high, part),
	};
}

/* The interval, whichever way the offset bends. */
static struct interval either_way(const struct bend *b)
{
	return (struct interval){ smaller(b->peak.lo, b->dip.lo), larger(b->peak.hi, b->dip.hi) };
}

bool clock_history_make_knot(struct clock_evidence *e, int64_t at_ns, struct clock_knot *out,
			     struct bend *bend)
{
	struct interval either;

	if (!bend_at(&e->low, &e->high, (double)(at_ns - e->history->x0_ns), &e->near, bend))
		return false;
	either = either_way(bend);
	*out = (struct clock_knot){
		.host_ns = at_ns,
		.ways = { way_of(either, bend->peak), way_of(either, bend->dip) },
	};
	set_interval(e->history, either, out);
	return true;
}

void clock_history_guess(const struct clock_evidence *e, const struct bend *bend,
			 struct clock_knot *k)
{
	set_guess(e->history, e->pace, either_way(bend), k);
}

bool clock_history_make_knot_now(const struct clock_history *h, const struct clock_pace *p,
				 int64_t at_ns, struct clock_knot *out, double *drift)
{
	const struct pace any = { 0, CLOCK_RATE_MAX };
	double x = (double)(at_ns - h->x0_ns), near = p->pace.drift + clock_pace_hidden(p, x);
	struct pace pace = { p->pace.rate, near };
	struct interval in;

	*drift = smaller(BEYOND_FACTOR * near, clock_pace_max_drift(p));
	if (at_ns > h->last_ns || at_ns < h->first_ns)
		pace.drift = *drift;
	if (!envelope_at(&h->low, &h->high, x, pace, &in))
		return false;
	if (in.lo > in.hi && (!envelope_at(&h->low, &h->high, x, any, &in) || in.lo > in.hi))
		return false;
	*out = (struct clock_knot){ .host_ns = at_ns };
	set_interval(h, in, out);
	set_guess(h, p, in, out);
	return true;
}
