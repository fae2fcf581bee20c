/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds that the probes gave since the last break of the host's clock, and the pace of the
 * offset that follows from them. Part of the estimator; loop thread.
 */
#ifndef AGENT_CLOCK_HISTORY_H
#define AGENT_CLOCK_HISTORY_H

#include "agent/clock/bend.h"
#include "agent/clock/envelope.h"
#include "agent/clock/model.h"
#include "agent/clock/sample.h"

/* How far a rate may stray from its mean: anything more is a break. */
#define CLOCK_STRAY_MAX 120e-6

#define CLOCK_RATE_BASE_NS 2e9 /* least distance of two intervals from which a rate is made */

/* How far the rate may wander around time x without the bounds there showing it. */
struct clock_hidden {
	double x, drift;
};

/* How the offset moved in a period, and how sure that is. */
struct clock_pace {
	struct pace pace;
	double proved; /* the part of the drift that is the uncertainty of the mean rate */
	double wander; /* the part of the drift that the bounds show */
	double span_ns; /* of the bounds that it was found from */
	struct clock_hidden *hidden; /* in order of time; belongs to the history */
	size_t n_hidden;
};

struct clock_history {
	enum clock_break cause;
	int64_t x0_ns, v0_ns; /* origin of the bounds: host time, offset */
	int64_t begin_ns, first_ns, last_ns; /* host time: of the break, of samples */
	int64_t jump_ns; /* for a break that the estimator found: the least that the offset moved */
	/* Requests of before then may be of before the break: they count only while there is none of after it. */
	int64_t sure_ns;
	bool is_sure; /* there is one */
	struct bounds low, high;
	struct bounds tight_low, tight_high; /* pruned, for knots, if is_pruned */
	bool is_pruned;
	double certain_x; /* time of the newest bound */
	/* what all bounds prove at certain_x; a sample that contradicts it is a break */
	struct interval certain;
	/* the rates that `certain` assumes: their middle, and how far they may be from it */
	struct pace cone;
	/* an earlier time, and the interval that was certain then; with `certain` they prove the cone's rate */
	double anchor_x;
	struct interval anchor;
	bool has_anchor;
	uint32_t probes;
	int64_t rtt_min_ns; /* -1 = none */

	struct clock_pace pace; /* as last found by clock_history_pace() */
	bool has_pace; /* and no sample came since */
	int64_t pace_from_ns;
};

/* The drift that holds however the rate changes: it covers all rates within CLOCK_DRIFT_MAX. */
double clock_pace_max_drift(const struct clock_pace *p);

/* The drift that the bounds around x could hide, on top of pace.drift. */
double clock_pace_hidden(const struct clock_pace *p, double x);

/* sure_ns: by then the break is over; INT64_MIN = at begin_ns. */
struct clock_history *clock_history_new(enum clock_break cause, int64_t begin_ns, int64_t sure_ns);
void clock_history_free(struct clock_history *h); /* NULL is fine */

/*
 * 0 if a clock whose rate stays in the cone can have given both this sample and the history. Otherwise there was a
 * break: returns the least by which the offset moved. If that is negative, the sample's reply shows it, and the break may be
 * of after its request. *rate: whether another rate within CLOCK_DRIFT_MAX explains
 * the sample, too.
 */
int64_t clock_history_contradiction_ns(const struct clock_history *h, const struct clock_sample *s,
				       bool *rate);
void clock_history_add(struct clock_history *h, const struct clock_sample *s);

/* Forgets bounds after this host time. If none would be left, forgets nothing and returns false. */
bool clock_history_keep_until(struct clock_history *h, int64_t until_ns);

/* To be called when samples alone showed a break and `next` began: forgets the last bounds, which may be from
 * after the break. If none would be left, keeps all. */
void clock_history_cut(struct clock_history *h, const struct clock_history *next);

/* A part of a history, in host time. */
struct clock_part {
	int64_t from_ns, to_ns;
};

/* The claim that during `when` the offset was in [lo_ns, hi_ns]. */
struct clock_claim {
	struct clock_part when;
	int64_t lo_ns, hi_ns;
};

/* The claim of a short history: what its bounds say for all of its times. If it has only lower or only upper bounds,
 * these give both ends of the interval. */
struct clock_claim clock_history_claim(const struct clock_history *h);

/*
 * The gap around another history's claim: from the last bound before it to the first bound after it that
 * contradict the claim at any rate. On a side without such a bound the gap reaches to the closest lower or the
 * closest upper bound, whichever is further away; to INT64_MIN or INT64_MAX if that side lacks one of the kinds.
 */
struct clock_part clock_history_gap_around(const struct clock_history *h,
					   const struct clock_claim *c);

/* Forgets bounds before this host time. */
void clock_history_expire(struct clock_history *h, int64_t before_ns);

/* How the offset moved since from_ns (host time); NULL while there are no bounds of both kinds.
 * Valid until the next call. It is kept, and found again only after a sample, when bounds were cut off, or when
 * from_ns has moved by 5 s. */
const struct clock_pace *clock_history_pace(struct clock_history *h, int64_t from_ns);

/* What the knots of a window's map are made from: the bounds of a part of a history. Borrowed from the history, so
 * valid until its next sample. */
struct clock_evidence {
	const struct clock_history *history;
	const struct clock_pace *pace;
	struct bounds low, high; /* pruned */
	struct bend_near near; /* the last knot */
};

struct clock_evidence clock_history_evidence(struct clock_history *h, const struct clock_pace *p,
					     struct clock_part part);

/*
 * Makes one knot: the interval of the offset at host time at_ns that the evidence proves. *bend gets the limits of the
 * rate around that time. False if the bounds contradict each other at any rate.
 */
bool clock_history_make_knot(struct clock_evidence *e, int64_t at_ns, struct clock_knot *out,
			     struct bend *bend);

/* Sets the best guess of the knot that was made with this bend. */
void clock_history_guess(const struct clock_evidence *e, const struct bend *bend,
			 struct clock_knot *k);

/*
 * The knot of a model of now, with its guess. Assumes that the rate has not stepped since the last bounds. *drift is
 * how far the rate may stray from the pace's where there are no bounds.
 */
bool clock_history_make_knot_now(const struct clock_history *h, const struct clock_pace *p,
				 int64_t at_ns, struct clock_knot *out, double *drift);

/* The median distance, over [from, to], of a train's best probe from the line through its neighbours. */
int64_t clock_history_jitter_ns(const struct clock_history *h, int64_t from_ns, int64_t to_ns);

#endif
