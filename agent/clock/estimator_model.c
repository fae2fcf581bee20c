/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a model from histories: of now, or for a window of the past. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/estimator_impl.h"
#include "agent/clock/gap.h"
#include "base/mem.h"
#include "base/now.h"

/* a map's pace is made from samples up to this long before the map */
#define PACE_BACK_NS   (300 * NS_PER_S)
#define JITTER_BACK_NS (10 * NS_PER_S)
#define EDGE_NS	       (2 * NS_PER_S) /* a map's knots reach this far beyond its ends */
#define OUTER_GAP_NS   (195 * NS_PER_MS) /* less than a fifth of a second, which trains are apart */
#define INNER_GAP_NS   (20 * NS_PER_MS) /* less than trains are apart on any path */
#define KNOWN_NS       NS_PER_S /* a suspected break is decided within this time */

/* Two breaks in the same direction within RUNAWAY_NS, with a mean rate of at most RUNAWAY_RATE, are taken for a clock
 * that runs at a rate beyond CLOCK_DRIFT_MAX. */
#define RUNAWAY_NS   (30 * NS_PER_S)
#define RUNAWAY_RATE 5e-3

/* What a map is made for. */
struct period {
	int64_t from_ns, to_ns;
	bool is_now; /* the map is for one instant, which may be beyond all samples */
};

/* The knots that a history puts into a map. */
struct knot_span {
	struct clock_history *h;
	const struct clock_pace *pace;
	struct clock_part part; /* the knots are at times of its bounds */
	struct clock_evidence evidence; /* of that part */
	/* the part of the history with the knots: it begins and ends with bounds of both kinds */
	struct clock_part sure;
	int64_t from_ns, to_ns;
	size_t most;
};

/* The knots of all segments. */
struct knots {
	struct clock_knot *at;
	struct knot_note *notes;
	size_t n, cap;
	size_t n_doubtful; /* the last ones are of doubts, and what follows these is not known yet */
};

static struct clock_knot *next_knot(struct knots *k)
{
	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : CLOCK_KNOTS;
		k->at = xrealloc(k->at, k->cap * sizeof(*k->at));
		k->notes = xrealloc(k->notes, k->cap * sizeof(*k->notes));
	}
	return &k->at[k->n];
}

static bool put_knot(struct knots *k, struct knot_span *span, int64_t at_ns, bool is_inner)
{
	struct clock_knot *next = next_knot(k);
	struct knot_note *note = &k->notes[k->n];

	note->is_inner = is_inner;
	if (!clock_history_make_knot(&span->evidence, at_ns, next, &note->bend))
		return false;
	if (!is_inner)
		clock_history_guess(&span->evidence, &note->bend, next);
	k->n++;
	return true;
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static int64_t larger_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* An inner knot's guess is on the line between its outer knots, as far as its interval allows: guesses of its own
 * would follow the noise of single probes. */
static void guess_inside(struct clock_knot *k, size_t from, size_t to)
{
	double rate = (double)(k[to].offset_ns - k[from].offset_ns) /
		      (double)(k[to].host_ns - k[from].host_ns);

	for (size_t i = from + 1; i < to; i++) {
		double moved = rate * (double)(k[i].host_ns - k[from].host_ns);

		k[i].offset_ns = clamp(k[from].offset_ns + llround(moved), k[i].lo_ns, k[i].hi_ns);
	}
}

/* Puts an outer knot after the outer knot `*outer`, if there is one. */
static void put_outer_knot(struct knots *k, struct knot_span *span, int64_t at_ns, size_t *outer)
{
	if (!put_knot(k, span, at_ns, false))
		return;
	if (*outer < k->n)
		guess_inside(k->at, *outer, k->n - 1);
	*outer = k->n - 1;
}

/*
 * Chooses the knots: one at each end and, in between, at times of bounds, where intervals are narrowest. The last train
 * but one gets an outer knot, too: what it proves limits the rate after the window.
 */
static void put_knots(struct knots *k, struct knot_span *span)
{
	const struct bounds *b = &span->h->low;
	int64_t least_ns = (span->to_ns - span->from_ns) / (int64_t)(span->most - 3) + 1;
	int64_t outer_ns = larger_ns(least_ns, OUTER_GAP_NS);
	int64_t inner_ns = larger_ns(least_ns, INNER_GAP_NS);
	size_t i = bounds_from(b, (double)(span->from_ns - span->h->x0_ns));
	size_t end = bounds_from(b, (double)(span->to_ns - INNER_GAP_NS - span->h->x0_ns));
	int64_t last = span->from_ns, last_outer = span->from_ns;
	size_t outer = SIZE_MAX;

	put_outer_knot(k, span, span->from_ns, &outer);
	for (; i < b->n; i++) {
		int64_t at_ns = span->h->x0_ns + (int64_t)b->at[i].x;

		if (at_ns >= span->to_ns)
			break;
		if (at_ns - last < inner_ns)
			continue;
		if (at_ns - last_outer >= outer_ns || i + 1 == end) {
			put_outer_knot(k, span, at_ns, &outer);
			last_outer = last = at_ns;
		} else if (outer < k->n) {
			(void)put_knot(k, span, at_ns, true);
			last = at_ns;
		}
	}
	if (span->to_ns > span->from_ns)
		put_outer_knot(k, span, span->to_ns, &outer);
	if (outer < k->n)
		k->n = outer + 1;
}

/* Begins the model's next segment; end_segment() completes it. NULL if the model has CLOCK_SEGMENTS already. */
static struct clock_segment *begin_segment(struct clock_model *m, const struct knots *k,
					   const struct clock_pace *pace, enum clock_break cause)
{
	struct clock_segment *seg = &m->segments[m->n_segments];

	if (m->n_segments == CLOCK_SEGMENTS)
		return NULL;
	*seg = (struct clock_segment){
		.cause = cause,
		.first = (uint16_t)k->n,
		.rate = pace->pace.rate,
		.drift = clock_pace_max_drift(pace),
		.drift_far = clock_pace_max_drift(pace),
	};
	return seg;
}

static void end_segment(struct clock_model *m, const struct knots *k)
{
	struct clock_segment *seg = &m->segments[m->n_segments];

	seg->n = (uint16_t)(k->n - seg->first);
	m->n_segments += seg->n > 0;
}

/* A model of now has one knot in each segment, at its end. */
static bool put_now(const struct knot_span *span, struct clock_model *m, struct knots *k)
{
	struct clock_segment *seg = begin_segment(m, k, span->pace, span->h->cause);
	struct clock_knot *next = next_knot(k);

	if (!seg)
		return false;
	k->n += clock_history_make_knot_now(span->h, span->pace, span->to_ns, next, &seg->drift);
	seg->horizon_ns = (int64_t)(span->pace->span_ns / 2);
	end_segment(m, k);
	return true;
}

/* Widens knot k by the interval of another one, from where the offset moved at any rate. */
static void join_knot(struct clock_knot *k, const struct clock_knot *other, double any)
{
	int64_t far = (int64_t)ceil(any * fabs((double)(other->host_ns - k->host_ns)));

	k->lo_ns = other->lo_ns - far < k->lo_ns ? other->lo_ns - far : k->lo_ns;
	k->hi_ns = other->hi_ns + far > k->hi_ns ? other->hi_ns + far : k->hi_ns;
}

/* What follows a doubt may have begun while the doubt's probes were under way. */
static void join_next(struct knots *k, const struct clock_segment *next)
{
	if (k->n == next->first)
		return;
	for (size_t i = next->first - k->n_doubtful; i < next->first; i++)
		join_knot(&k->at[i], &k->at[next->first], next->drift);
	k->n_doubtful = 0;
}

/* Adds the knots of one part. Beyond a window's probes the map allows any rate. */
static bool put_part(const struct knot_span *span, enum clock_break cause, struct clock_model *m,
		     struct knots *k)
{
	struct knot_span in = *span;
	struct clock_segment *seg;

	if (span->sure.from_ns > span->sure.to_ns)
		return true;
	in.from_ns = clamp(span->from_ns, span->sure.from_ns, span->sure.to_ns);
	in.to_ns = clamp(span->to_ns, span->sure.from_ns, span->sure.to_ns);
	seg = begin_segment(m, k, span->pace, cause);
	if (!seg)
		return false;
	in.evidence = clock_history_evidence(span->h, span->pace, span->part);
	put_knots(k, &in);
	gaps_widen(k->at + seg->first, k->notes + seg->first, k->n - seg->first);
	join_next(k, seg);
	end_segment(m, k);
	return true;
}

/*
 * A doubt gets a segment of its own; in the gaps around it, either neighbour may hold. So it may within: the clock may
 * have jumped while a probe was under way, and what the probe's request proves is of before then.
 */
static bool put_doubt(const struct knot_span *span, const struct clock_claim *d,
		      struct clock_model *m, struct knots *k)
{
	const struct clock_segment *seg = begin_segment(m, k, span->pace, CLOCK_BREAK_DOUBT);
	size_t first = k->n;

	if (!seg)
		return false;
	for (int end = 0; end < 2 && (!end || d->when.to_ns > d->when.from_ns); end++) {
		struct clock_knot *knot = next_knot(k);

		*knot = (struct clock_knot){
			.host_ns = end ? d->when.to_ns : d->when.from_ns,
			.offset_ns = d->lo_ns + (d->hi_ns - d->lo_ns) / 2,
			.lo_ns = d->lo_ns,
			.hi_ns = d->hi_ns,
		};
		if (first)
			join_knot(knot, &k->at[first - 1], seg->drift);
		k->n++;
		k->n_doubtful++;
	}
	end_segment(m, k);
	return true;
}

/* The doubts of one history. */
struct doubts {
	struct clock_claim at[ESTIMATOR_DOUBTS + 1];
	size_t n;
};

/* The map of a history, with the doubts in it. */
static bool put_window(struct knot_span *span, struct period want, const struct doubts *doubts,
		       struct clock_model *m, struct knots *k)
{
	enum clock_break cause = span->h->cause;

	for (size_t i = 0; i < doubts->n; i++) {
		const struct clock_claim *d = &doubts->at[i];
		struct clock_part around = clock_history_gap_around(span->h, d);

		span->part.to_ns = d->when.from_ns;
		span->sure.to_ns = around.from_ns;
		if (around.from_ns >= want.to_ns)
			break;
		if (around.to_ns > want.from_ns) {
			if (!put_part(span, cause, m, k) || !put_doubt(span, d, m, k))
				return false;
			cause = CLOCK_BREAK_DOUBT;
		}
		span->part = (struct clock_part){ d->when.to_ns, INT64_MAX };
		span->sure = (struct clock_part){ around.to_ns, INT64_MAX };
	}
	return put_part(span, cause, m, k);
}

static void find_doubts(const struct clock_estimator *est, size_t i, size_t n, struct doubts *out)
{
	int64_t begin_ns = i ? est->histories[i]->begin_ns : INT64_MIN;
	int64_t end_ns = i + 1 < n ? est->histories[i + 1]->begin_ns : INT64_MAX;

	out->n = 0;
	for (size_t d = 0; d < est->n_doubts; d++) {
		const struct clock_claim *c = &est->doubts[d];

		if (c->when.from_ns >= begin_ns && c->when.from_ns < end_ns)
			out->at[out->n++] = *c;
	}
	if (i + 1 == n && n < est->n) /* neither confirmed nor contradicted yet */
		out->at[out->n++] = clock_history_claim(est->histories[n]);
}

/* Sets the rate and drift with which the model translates beyond the first and the last knot. False if
 * nothing is certain at the end of the history. */
static bool put_history(const struct clock_estimator *est, size_t i, size_t n, struct period want,
			struct clock_model *m, struct knots *k)
{
	struct clock_history *h = est->histories[i];
	const struct clock_pace *pace = clock_history_pace(h, want.from_ns - PACE_BACK_NS);
	const struct clock_part all = { INT64_MIN, INT64_MAX };
	struct knot_span span = { .h = h, .pace = pace, .part = all, .sure = all };
	struct doubts doubts;

	if (!pace || !is_confirmed(h))
		return false;
	find_doubts(est, i, n, &doubts);
	span.from_ns = clamp(want.from_ns, h->first_ns, h->last_ns);
	span.to_ns = clamp(want.to_ns, h->first_ns, h->last_ns);
	span.most = CLOCK_KNOTS_LONG / (est->n + doubts.n);
	return want.is_now ? put_now(&span, m, k) : put_window(&span, want, &doubts, m, k);
}

static void set_summary(const struct clock_estimator *est, const struct clock_history *h,
			const struct clock_knot *now, struct clock_model *m)
{
	int64_t above = now->hi_ns - now->offset_ns, below = now->offset_ns - now->lo_ns;

	m->offset_ns = now->offset_ns;
	m->bound_ns = above > below ? above : below;
	m->rate = h->pace.pace.rate;
	m->rate_known = h->pace.proved < CLOCK_DRIFT_MAX;
	m->steps_found = est->steps_found;
	m->bound_rate = m->segments[m->n_segments - 1].drift;
	m->rtt_min_ns = h->rtt_min_ns < 0 ? 0 : h->rtt_min_ns;
	m->probes = est->probes;
	m->bad_samples = est->bad_samples;
}

/* Gives the knots to the model. */
static void take_knots(struct clock_model *m, struct knots *k)
{
	free(k->notes);
	m->n_knots = (uint16_t)k->n;
	if (k->n > CLOCK_KNOTS) {
		m->long_knots = k->at;
		return;
	}
	if (k->n)
		memcpy(m->knots, k->at, k->n * sizeof(*k->at));
	free(k->at);
}

/* Whether the clock ran away near [from, to], at a rate that is not known. */
static bool is_running_away(const struct clock_estimator *est, int64_t from_ns, int64_t to_ns)
{
	const struct clock_history *last = NULL;

	for (size_t i = 0; i < est->n; i++) {
		const struct clock_history *h = est->histories[i];

		if (!is_begun_by_sample(h) || !is_confirmed(h))
			continue;
		if (last && (h->jump_ns > 0) == (last->jump_ns > 0) &&
		    h->begin_ns - last->begin_ns <= RUNAWAY_NS &&
		    fabs((double)h->jump_ns) <=
			    RUNAWAY_RATE * (double)(h->begin_ns - last->begin_ns) &&
		    from_ns <= h->begin_ns + RUNAWAY_NS && to_ns >= last->begin_ns - RUNAWAY_NS)
			return true;
		last = h;
	}
	return false;
}

/* In a map of the past, a history that is not confirmed counts as a doubt of the one before it. */
static size_t count_histories(const struct clock_estimator *est, struct period want)
{
	return est->n > 1 && !want.is_now && !is_confirmed(newest_history(est)) ? est->n - 1
										: est->n;
}

static bool make_map(const struct clock_estimator *est, int64_t now_ns, struct period want,
		     struct clock_model *m)
{
	size_t n = count_histories(est, want);
	const struct clock_history *last = n ? est->histories[n - 1] : NULL;
	struct clock_knot now;
	struct knots k = { 0 };
	bool mapped = false;
	double drift;

	m->n_segments = 0;
	m->n_knots = 0;
	m->long_knots = NULL;
	if (is_running_away(est, want.from_ns, want.to_ns))
		return false;
	for (size_t i = 0; i < n; i++)
		mapped = put_history(est, i, n, want, m, &k);
	take_knots(m, &k);
	if (!mapped || !m->n_segments ||
	    !clock_history_make_knot_now(last, &last->pace, now_ns, &now, &drift))
		return false;
	set_summary(est, last, &now, m);
	m->jitter_ns = clock_history_jitter_ns(last, want.from_ns - PACE_BACK_NS, want.to_ns);
	return true;
}

/* Whether the window begins before an announced break, with no history of that time: what holds now does not
 * hold then. */
static bool is_beyond_break(const struct clock_estimator *est, int64_t at_ns)
{
	const struct clock_history *h = est->n ? est->histories[0] : NULL;

	return (h && h->cause > CLOCK_BREAK_STEP && at_ns < h->begin_ns) ||
	       (est->has_forgotten && at_ns < est->forgot_doubt_ns);
}

bool clock_estimator_make_window_model(const struct clock_estimator *est, int64_t now_ns,
				       int64_t from_ns, int64_t to_ns, struct clock_model *out)
{
	if (is_beyond_break(est, from_ns))
		return false;
	return make_map(est, now_ns, (struct period){ from_ns - EDGE_NS, to_ns + EDGE_NS, false },
			out);
}

bool clock_estimator_is_suspecting(const struct clock_estimator *est)
{
	const struct clock_history *h = newest_history(est);

	return h && !is_confirmed(h);
}

static struct clock_suspicion find_suspicion(const struct clock_estimator *est)
{
	const struct clock_history *h = newest_history(est);
	struct clock_history *before = est->n > 1 ? est->histories[est->n - 2] : NULL;
	const struct clock_pace *pace;
	struct clock_knot last;
	double drift;

	if (!before || !clock_estimator_is_suspecting(est))
		return (struct clock_suspicion){ 0 };
	pace = clock_history_pace(before, before->last_ns - PACE_BACK_NS);
	if (!pace || !clock_history_make_knot_now(before, pace, before->last_ns, &last, &drift))
		return (struct clock_suspicion){ 0 };
	return (struct clock_suspicion){
		.cause = h->cause,
		.from_ns = before->last_ns - last.offset_ns,
		.to_ns = h->first_ns - last.offset_ns,
		.delta_ns = h->jump_ns,
		.known_ns = h->first_ns - last.offset_ns + KNOWN_NS,
	};
}

bool clock_estimator_make_model(const struct clock_estimator *est, int64_t now_ns,
				struct clock_model *out)
{
	out->suspected = find_suspicion(est);
	return make_map(est, now_ns, (struct period){ now_ns, now_ns, true }, out);
}

int64_t clock_estimator_jitter_ns(const struct clock_estimator *est, int64_t now_ns)
{
	const struct clock_history *h = newest_history(est);

	return h ? clock_history_jitter_ns(h, now_ns - JITTER_BACK_NS, now_ns) : 0;
}
