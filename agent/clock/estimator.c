/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimator: a history per stretch without a break, and a model made from them on demand.
 *
 * Nothing is assumed about the path but that no packet arrives before it was sent, and about the
 * clock but that its rate is within CLOCK_DRIFT_MAX and wanders little: docs/time.md.
 */
#include "agent/clock/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/history.h"
#include "base/mem.h"
#include "base/now.h"

#define TIME_MAX_NS INT64_C(4000000000000000000)
#define KEEP_NS	    (3900 * NS_PER_S) /* the longest capture, and what is around it */
#define AGO_NS	    (300 * NS_PER_S) /* samples this long before a map still shape it */
#define EDGE_NS	    (2 * NS_PER_S) /* a map's knots reach this far beyond its ends */
#define CONFIRM	    4 /* probes after a step that nobody announced, before it is believed */
#define EXPIRE_EACH 1024 /* samples */

struct clock_estimator {
	struct clock_history *histories[CLOCK_SEGMENTS]; /* in order of time */
	size_t n;
	uint32_t probes, bad;
	enum clock_break broke; /* the last one announced: it is the host's, whatever the epoch */
	int64_t broke_ns;
};

struct clock_estimator *clock_estimator_new(void)
{
	return xcalloc(1, sizeof(struct clock_estimator));
}

static void forget(struct clock_estimator *est)
{
	for (size_t i = 0; i < est->n; i++)
		clock_history_free(est->histories[i]);
	est->n = 0;
	est->probes = est->bad = 0;
}

void clock_estimator_free(struct clock_estimator *est)
{
	if (est)
		forget(est);
	free(est);
}

/* ---- histories ---- */

static void drop(struct clock_estimator *est, size_t i)
{
	clock_history_free(est->histories[i]);
	est->n--;
	memmove(&est->histories[i], &est->histories[i + 1],
		(est->n - i) * sizeof(est->histories[0]));
}

static struct clock_history *push(struct clock_estimator *est, enum clock_break cause,
				  int64_t at_ns)
{
	if (est->n == CLOCK_SEGMENTS)
		drop(est, 0);
	return est->histories[est->n++] = clock_history_new(cause, at_ns);
}

static struct clock_history *newest(const struct clock_estimator *est)
{
	return est->n ? est->histories[est->n - 1] : NULL;
}

void clock_estimator_reset(struct clock_estimator *est)
{
	forget(est);
	if (est->broke)
		push(est, est->broke, est->broke_ns);
}

/* A contradiction is either a step or a lie. Until probes have agreed with it, nobody knows. */
static bool is_confirmed(const struct clock_history *h)
{
	return h->cause != CLOCK_BREAK_STEP || h->probes >= CONFIRM;
}

void clock_estimator_break(struct clock_estimator *est, int64_t at_ns, enum clock_break cause)
{
	struct clock_history *h = newest(est);

	if (h && (!h->probes || !is_confirmed(h)))
		drop(est, est->n - 1);
	push(est, cause, at_ns);
	est->broke = cause;
	est->broke_ns = at_ns;
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

/* The history that a sample belongs to; a sample against all that the newest says begins another. */
static struct clock_history *find_history(struct clock_estimator *est, const struct clock_sample *s)
{
	int64_t at_ns = s->no_request ? s->t4_ns : s->t1_ns;
	struct clock_history *h = newest(est);

	if (!h)
		return push(est, CLOCK_BREAK_NONE, at_ns);
	if (at_ns < h->begin_ns && h->cause != CLOCK_BREAK_NONE)
		return NULL; /* sent before the break, and late */
	if (!clock_history_contradicts(h, s))
		return h;
	if (!is_confirmed(h)) {
		est->bad += h->probes;
		drop(est, est->n - 1);
		return find_history(est, s);
	}
	return push(est, CLOCK_BREAK_STEP, at_ns);
}

bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s)
{
	struct clock_history *h;

	if (!is_possible(s)) {
		est->bad++;
		return false;
	}
	h = find_history(est, s);
	if (!h)
		return true;
	clock_history_add(h, s);
	est->probes += !s->again;
	if (h->probes % EXPIRE_EACH == 0)
		clock_history_expire(h, h->last_ns - KEEP_NS);
	return true;
}

/* ---- the model ---- */

/* Where in the map of [from, to] this history has knots. */
struct stretch {
	const struct clock_history *h;
	const struct clock_pace *pace;
	int64_t from_ns, to_ns;
	size_t most; /* knots */
};

static void put_knot(struct clock_model *m, const struct stretch *st, int64_t at_ns)
{
	if (clock_history_knot(st->h, st->pace, at_ns, &m->knots[m->n_knots]))
		m->n_knots++;
}

/* A knot at each end and, in between, where there are bounds: there the intervals are narrowest. */
static void put_knots(struct clock_model *m, const struct stretch *st)
{
	const struct bounds *b = &st->h->low;
	int64_t step = (st->to_ns - st->from_ns) / (int64_t)(st->most - 2) + 1;
	size_t i = bounds_from(b, (double)(st->from_ns - st->h->x0_ns));
	int64_t last = st->from_ns;

	put_knot(m, st, st->from_ns);
	for (; i < b->n; i++) {
		int64_t at_ns = st->h->x0_ns + (int64_t)b->at[i].x;

		if (at_ns >= st->to_ns)
			break;
		if (at_ns - last < step)
			continue;
		put_knot(m, st, at_ns);
		last = at_ns;
	}
	if (st->to_ns > st->from_ns)
		put_knot(m, st, st->to_ns);
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* What is certain at one knot is so at the next, but for how far the offset strays in between: an envelope looks at
 * the probes that are near, and knots in a time of bad ones would hide how good the others were. */
static void carry(struct clock_knot *to, const struct clock_knot *from, struct pace p)
{
	double far = (double)(to->host_ns - from->host_ns), stray = p.drift * fabs(far) + 1;
	int64_t lo = from->lo_ns + (int64_t)floor(p.rate * far - stray);
	int64_t hi = from->hi_ns + (int64_t)ceil(p.rate * far + stray);

	lo = lo > to->lo_ns ? lo : to->lo_ns;
	hi = hi < to->hi_ns ? hi : to->hi_ns;
	if (lo > hi)
		return;
	*to = (struct clock_knot){ to->host_ns, clamp(to->offset_ns, lo, hi), lo, hi };
}

static void tighten(struct clock_knot *k, size_t n, struct pace p)
{
	for (size_t i = 1; i < n; i++)
		carry(&k[i], &k[i - 1], p);
	for (size_t i = n; i-- > 1;)
		carry(&k[i - 1], &k[i], p);
}

static void put_segment(struct clock_model *m, const struct stretch *st)
{
	struct clock_segment *seg = &m->segments[m->n_segments];

	*seg = (struct clock_segment){
		.cause = st->h->cause,
		.first = m->n_knots,
		.rate = st->pace->pace.rate,
		.drift = st->pace->pace.drift,
		.drift_out = clock_pace_beyond(st->pace),
		.drift_far = clock_pace_any(st->pace),
		.horizon_ns = (int64_t)(st->pace->span_ns / 2),
	};
	put_knots(m, st);
	seg->n = m->n_knots - seg->first;
	tighten(&m->knots[seg->first], seg->n, st->pace->pace);
	m->n_segments += seg->n > 0;
}

/* Knots are among the samples: what is beyond the first and the last the model says itself, at another drift. */
static bool map_history(const struct clock_estimator *est, size_t i, int64_t from_ns, int64_t to_ns,
			struct clock_model *m)
{
	struct clock_history *h = est->histories[i];
	const struct clock_pace *pace = clock_history_pace(h, from_ns - AGO_NS);
	struct stretch st = { .h = h, .pace = pace, .most = CLOCK_KNOTS / est->n };

	if (!pace || !is_confirmed(h))
		return false;
	st.from_ns = clamp(from_ns, h->first_ns, h->last_ns);
	st.to_ns = clamp(to_ns, h->first_ns, h->last_ns);
	put_segment(m, &st);
	return true;
}

static void describe(const struct clock_estimator *est, const struct clock_knot *now,
		     struct clock_model *m)
{
	const struct clock_history *h = newest(est);
	int64_t above = now->hi_ns - now->offset_ns, below = now->offset_ns - now->lo_ns;

	m->offset_ns = now->offset_ns;
	m->bound_ns = above > below ? above : below;
	m->rate = h->pace.pace.rate;
	m->bound_rate = m->segments[m->n_segments - 1].drift_out;
	m->rtt_min_ns = h->rtt_min_ns < 0 ? 0 : h->rtt_min_ns;
	m->probes = est->probes;
	m->bad = est->bad;
}

static bool make_model(const struct clock_estimator *est, int64_t now_ns, int64_t from_ns,
		       int64_t to_ns, struct clock_model *m)
{
	struct clock_knot now;
	bool mapped = false;

	m->n_segments = 0;
	m->n_knots = 0;
	for (size_t i = 0; i < est->n; i++)
		mapped = map_history(est, i, from_ns, to_ns, m);
	if (!mapped || !clock_history_knot(newest(est), &newest(est)->pace, now_ns, &now))
		return false;
	describe(est, &now, m);
	m->jitter_ns = clock_history_jitter_ns(newest(est), from_ns - AGO_NS, to_ns);
	return true;
}

/* The clock is known to have broken, and nothing that was learnt before is kept: what holds now says
 * nothing of then. */
static bool is_beyond_break(const struct clock_estimator *est, int64_t at_ns)
{
	const struct clock_history *h = est->n ? est->histories[0] : NULL;

	return h && h->cause > CLOCK_BREAK_STEP && at_ns < h->begin_ns;
}

bool clock_estimator_map(const struct clock_estimator *est, int64_t now_ns, int64_t from_ns,
			 int64_t to_ns, struct clock_model *out)
{
	if (is_beyond_break(est, from_ns))
		return false;
	return make_model(est, now_ns, from_ns - EDGE_NS, to_ns + EDGE_NS, out);
}

bool clock_estimator_get(const struct clock_estimator *est, int64_t now_ns, struct clock_model *out)
{
	return make_model(est, now_ns, now_ns, now_ns, out);
}
