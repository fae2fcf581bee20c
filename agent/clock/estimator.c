/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history per period without a break, and a model made from them on demand.
 *
 * The only assumption about the path is that no packet arrives before it was sent. Those about the
 * clock are in agent/clock/bend.h, and for models of now in agent/clock/history.c: docs/time.md.
 */
#include "agent/clock/estimator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/history.h"
#include "base/mem.h"
#include "base/now.h"

#define TIME_MAX_NS    INT64_C(4000000000000000000)
#define KEEP_NS	       (3900 * NS_PER_S) /* the longest capture, and some time around it */
#define PACE_BACK_NS   (300 * NS_PER_S) /* samples up to this long before a map make its pace */
#define JITTER_BACK_NS (10 * NS_PER_S)
#define EDGE_NS	       (2 * NS_PER_S) /* a map's knots reach this far beyond its ends */
#define KNOT_GAP_NS    (200 * NS_PER_MS)
#define CONFIRM_PROBES 4 /* that many probes after a found break confirm it */
#define EXPIRE_EACH    1024 /* probes */

/* Breaks of one sign that follow each other so closely, and add up to no more than a clock may run
 * away in that time, are a rate beyond CLOCK_DRIFT_MAX. */
#define RUNAWAY_NS   (30 * NS_PER_S)
#define RUNAWAY_RATE 5e-3

struct clock_estimator {
	struct clock_history *histories[CLOCK_SEGMENTS]; /* in order of time */
	size_t n;
	uint32_t probes, bad_samples;
	uint32_t steps_found; /* holds over epochs */
	enum clock_break announced; /* the last break of the host's clock; holds over epochs */
	int64_t announced_ns;
};

struct clock_estimator *clock_estimator_new(void)
{
	return xcalloc(1, sizeof(struct clock_estimator));
}

static void forget_histories(struct clock_estimator *est)
{
	for (size_t i = 0; i < est->n; i++)
		clock_history_free(est->histories[i]);
	est->n = 0;
	est->probes = est->bad_samples = 0;
}

void clock_estimator_free(struct clock_estimator *est)
{
	if (est)
		forget_histories(est);
	free(est);
}

/* ---- histories ---- */

static void drop_history(struct clock_estimator *est, size_t i)
{
	clock_history_free(est->histories[i]);
	est->n--;
	memmove(&est->histories[i], &est->histories[i + 1],
		(est->n - i) * sizeof(est->histories[0]));
}

static struct clock_history *push_history(struct clock_estimator *est, enum clock_break cause,
					  int64_t at_ns)
{
	if (est->n == CLOCK_SEGMENTS)
		drop_history(est, 0);
	return est->histories[est->n++] = clock_history_new(cause, at_ns);
}

static struct clock_history *newest_history(const struct clock_estimator *est)
{
	return est->n ? est->histories[est->n - 1] : NULL;
}

void clock_estimator_reset(struct clock_estimator *est)
{
	forget_histories(est);
	if (est->announced)
		push_history(est, est->announced, est->announced_ns);
}

/* A sample against all others is a step or a false sample. Until probes agree with it, it is
 * unknown which. */
static bool is_found(const struct clock_history *h)
{
	return h->cause == CLOCK_BREAK_STEP || h->cause == CLOCK_BREAK_RATE;
}

static bool is_confirmed(const struct clock_history *h)
{
	return !is_found(h) || h->probes >= CONFIRM_PROBES;
}

void clock_estimator_break(struct clock_estimator *est, int64_t since_ns, int64_t at_ns,
			   enum clock_break cause)
{
	struct clock_history *h = newest_history(est);

	if (h && (!h->probes || !is_confirmed(h) || !clock_history_keep_until(h, since_ns)))
		drop_history(est, est->n - 1);
	push_history(est, cause, at_ns);
	est->announced = cause;
	est->announced_ns = at_ns;
}

/* ---- samples ---- */

static bool in_range(int64_t t)
{
	return t > -TIME_MAX_NS && t < TIME_MAX_NS;
}

static bool is_possible(const struct clock_sample *s)
{
	if (!s->no_request && (!in_range(s->t1_ns) || !in_range(s->t2_ns)))
		return false;
	if (!s->no_reply && (!in_range(s->t3_ns) || !in_range(s->t4_ns)))
		return false;
	if (s->no_request || s->no_reply)
		return !s->no_request || !s->no_reply;
	return s->t1_ns <= s->t4_ns && s->t2_ns <= s->t3_ns &&
	       s->t4_ns - s->t1_ns >= s->t3_ns - s->t2_ns;
}

/* The history that a sample belongs to; one that contradicts the newest history begins another.
 * NULL for a sample from before an announced break. */
static struct clock_history *history_for(struct clock_estimator *est, const struct clock_sample *s)
{
	int64_t at_ns = s->no_request ? s->t4_ns : s->t1_ns;
	struct clock_history *h = newest_history(est);
	int64_t jump_ns;
	bool rate;

	if (!h)
		return push_history(est, CLOCK_BREAK_NONE, at_ns);
	if (at_ns < h->begin_ns && h->cause != CLOCK_BREAK_NONE)
		return NULL; /* sent before the break and arrived late */
	jump_ns = clock_history_contradiction_ns(h, s, &rate);
	if (!jump_ns)
		return h;
	if (!is_confirmed(h)) {
		est->bad_samples += h->probes;
		drop_history(est, est->n - 1);
		return history_for(est, s);
	}
	h = push_history(est, rate ? CLOCK_BREAK_RATE : CLOCK_BREAK_STEP, at_ns);
	h->jump_ns = jump_ns;
	return h;
}

static void confirm_break(struct clock_estimator *est, const struct clock_history *h)
{
	est->steps_found++;
	if (est->n > 1)
		clock_history_cut(est->histories[est->n - 2], h);
}

bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s)
{
	struct clock_history *h;

	if (!is_possible(s)) {
		est->bad_samples++;
		return false;
	}
	h = history_for(est, s);
	if (!h)
		return true;
	clock_history_add(h, s);
	if (is_found(h) && h->probes == CONFIRM_PROBES && !s->is_update)
		confirm_break(est, h);
	est->probes += !s->is_update;
	if (h->probes % EXPIRE_EACH == 0)
		clock_history_expire(h, h->last_ns - KEEP_NS);
	return true;
}

/* ---- the model ---- */

/* Of a map. */
struct period {
	int64_t from_ns, to_ns;
	bool is_now; /* one instant, which may be beyond all samples */
};

/* The knots that a history puts into a map. */
struct knot_span {
	struct clock_history *h;
	const struct clock_pace *pace;
	int64_t from_ns, to_ns;
	size_t most;
};

/* Of all segments. */
struct knots {
	struct clock_knot *at;
	struct bend *bends; /* around each */
	size_t n, cap;
};

static struct clock_knot *next_knot(struct knots *k)
{
	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : CLOCK_KNOTS;
		k->at = xrealloc(k->at, k->cap * sizeof(*k->at));
		k->bends = xrealloc(k->bends, k->cap * sizeof(*k->bends));
	}
	return &k->at[k->n];
}

static void put_knot(struct knots *k, const struct knot_span *span, int64_t at_ns)
{
	struct clock_knot *next = next_knot(k);

	k->n += clock_history_knot(span->h, span->pace, at_ns, next, &k->bends[k->n]);
}

/* Closer knots than each train's would follow the noise of single probes. */
static int64_t knot_gap_ns(const struct knot_span *span)
{
	int64_t least_ns = (span->to_ns - span->from_ns) / (int64_t)(span->most - 2) + 1;

	return KNOT_GAP_NS > least_ns ? KNOT_GAP_NS : least_ns;
}

/* A knot at each end and, in between, at times of bounds: intervals are narrowest there. */
static void put_knots(struct knots *k, const struct knot_span *span)
{
	const struct bounds *b = &span->h->low;
	int64_t step = knot_gap_ns(span);
	size_t i = bounds_from(b, (double)(span->from_ns - span->h->x0_ns));
	int64_t last = span->from_ns;

	put_knot(k, span, span->from_ns);
	for (; i < b->n; i++) {
		int64_t at_ns = span->h->x0_ns + (int64_t)b->at[i].x;

		if (at_ns >= span->to_ns)
			break;
		if (at_ns - last < step)
			continue;
		put_knot(k, span, at_ns);
		last = at_ns;
	}
	if (span->to_ns > span->from_ns)
		put_knot(k, span, span->to_ns);
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* How far the offset can leave the lines between two knots. A rate that falls moves it above, up to
 * where the steepest line from the left meets the one from the right; a rate that rises below. */
static void widen_gap(struct clock_knot *k, const struct bend *bends)
{
	double gap = (double)(k[1].host_ns - k[0].host_ns), turn = CLOCK_TURN_MAX * gap / 2;
	double hi = (double)(k[1].hi_ns - k[0].hi_ns) / gap;
	double lo = (double)(k[1].lo_ns - k[0].lo_ns) / gap;

	k[0].after = (struct clock_bend){ turn + fmax(0, bends[0].after.hi - hi),
					  turn + fmax(0, lo - bends[0].after.lo) };
	k[1].before = (struct clock_bend){ turn + fmax(0, hi - bends[1].before.lo),
					   turn + fmax(0, bends[1].before.hi - lo) };
}

/* A model of now has one knot in each segment, at its end. */
static void put_now(struct knots *k, const struct knot_span *span, struct clock_segment *seg)
{
	struct clock_knot *next = next_knot(k);

	k->n += clock_history_now(span->h, span->pace, span->to_ns, next, &seg->drift);
	seg->drift_far = clock_pace_any(span->pace);
	seg->horizon_ns = (int64_t)(span->pace->span_ns / 2);
}

/* Beyond the probes of a window its map allows any rate. */
static void put_window(struct knots *k, const struct knot_span *span, struct clock_segment *seg)
{
	put_knots(k, span);
	for (size_t i = seg->first; i + 1 < k->n; i++)
		widen_gap(&k->at[i], &k->bends[i]);
	seg->drift = seg->drift_far = clock_pace_any(span->pace);
}

/* Knots are among the samples. Beyond the first and the last the model translates at a drift. */
static bool put_history(const struct clock_estimator *est, size_t i, struct period want,
			struct clock_model *m, struct knots *k)
{
	struct clock_history *h = est->histories[i];
	const struct clock_pace *pace = clock_history_pace(h, want.from_ns - PACE_BACK_NS);
	struct knot_span span = { .h = h, .pace = pace, .most = CLOCK_KNOTS_LONG / est->n };
	struct clock_segment *seg = &m->segments[m->n_segments];

	if (!pace || !is_confirmed(h))
		return false;
	span.from_ns = clamp(want.from_ns, h->first_ns, h->last_ns);
	span.to_ns = clamp(want.to_ns, h->first_ns, h->last_ns);
	*seg = (struct clock_segment){
		.cause = h->cause,
		.first = (uint16_t)k->n,
		.rate = pace->pace.rate,
	};
	if (want.is_now)
		put_now(k, &span, seg);
	else
		put_window(k, &span, seg);
	seg->n = (uint16_t)(k->n - seg->first);
	m->n_segments += seg->n > 0;
	return true;
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
	free(k->bends);
	m->n_knots = (uint16_t)k->n;
	if (k->n > CLOCK_KNOTS) {
		m->long_knots = k->at;
		return;
	}
	if (k->n)
		memcpy(m->knots, k->at, k->n * sizeof(*k->at));
	free(k->at);
}

/* Whether the clock ran away at a rate that nothing is known of, near [from, to]. */
static bool is_running_away(const struct clock_estimator *est, int64_t from_ns, int64_t to_ns)
{
	const struct clock_history *last = NULL;

	for (size_t i = 0; i < est->n; i++) {
		const struct clock_history *h = est->histories[i];

		if (!is_found(h) || !is_confirmed(h))
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

/* A map of the past allows any rate beyond its samples: it needs no confirmation of another rate. */
static size_t count_histories(const struct clock_estimator *est, struct period want)
{
	const struct clock_history *h = newest_history(est);

	return est->n > 1 && !want.is_now && h->cause == CLOCK_BREAK_RATE && !is_confirmed(h)
		       ? est->n - 1
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
		mapped = put_history(est, i, want, m, &k);
	take_knots(m, &k);
	if (!mapped || !m->n_segments ||
	    !clock_history_now(last, &last->pace, now_ns, &now, &drift))
		return false;
	set_summary(est, last, &now, m);
	m->jitter_ns = clock_history_jitter_ns(last, want.from_ns - PACE_BACK_NS, want.to_ns);
	return true;
}

/* Before an announced break without any history of the time before it: what holds now does not hold
 * then. */
static bool is_beyond_break(const struct clock_estimator *est, int64_t at_ns)
{
	const struct clock_history *h = est->n ? est->histories[0] : NULL;

	return h && h->cause > CLOCK_BREAK_STEP && at_ns < h->begin_ns;
}

bool clock_estimator_make_window_model(const struct clock_estimator *est, int64_t now_ns,
				       int64_t from_ns, int64_t to_ns, struct clock_model *out)
{
	if (is_beyond_break(est, from_ns))
		return false;
	return make_map(est, now_ns, (struct period){ from_ns - EDGE_NS, to_ns + EDGE_NS, false },
			out);
}

bool clock_estimator_make_model(const struct clock_estimator *est, int64_t now_ns,
				struct clock_model *out)
{
	return make_map(est, now_ns, (struct period){ now_ns, now_ns, true }, out);
}

int64_t clock_estimator_jitter_ns(const struct clock_estimator *est, int64_t now_ns)
{
	const struct clock_history *h = newest_history(est);

	return h ? clock_history_jitter_ns(h, now_ns - JITTER_BACK_NS, now_ns) : 0;
}
