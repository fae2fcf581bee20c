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

/* A wander that the bounds around a time could hide. */
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
	struct bounds low, high;
	struct bounds tight_low, tight_high; /* pruned, for knots, if is_pruned */
	bool is_pruned;
	double certain_x; /* time of the newest bound */
	/* what all bounds prove at certain_x; a sample that contradicts it is a break */
	struct interval certain;
	struct pace cone; /* the pace that `certain` assumes */
	/* time and interval of what was certain some time ago: they prove the cone's rate */
	double anchor_x;
	struct interval anchor;
	bool has_anchor;
	uint32_t probes;
	int64_t rtt_min_ns; /* -1 = none */

	struct clock_pace pace; /* as last found by clock_history_pace() */
	bool has_pace; /* and no sample came since */
	int64_t pace_from_ns;
};

/* The drift at any time, however the rate changes. */
double clock_pace_any(const struct clock_pace *p);

/* The drift that the bounds around x could hide, on top of pace.drift. */
double clock_pace_hidden(const struct clock_pace *p, double x);

struct clock_history *clock_history_new(enum clock_break cause, int64_t begin_ns);
void clock_history_free(struct clock_history *h); /* NULL is fine */

/*
 * 0 if a clock whose rate stays in the cone can have given both this sample and the history. Else a break:
 * the least by which the offset moved. *rate: whether another rate within CLOCK_DRIFT_MAX explains it, too.
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

/* The claim of a short history: what its bounds say for all of its times. With bounds of one kind only, their
 * value. */
struct clock_claim clock_history_claim(const struct clock_history *h);

/*
 * The gap around another history's claim: from the last bound before it to the first bound after it that
 * contradict the claim at any rate. On a side without such a bound, to the closest bounds of both kinds;
 * without bounds, INT64_MIN or INT64_MAX.
 */
struct clock_part clock_history_around(const struct clock_history *h, const struct clock_claim *c);

/* Forgets bounds before this host time. */
void clock_history_expire(struct clock_history *h, int64_t before_ns);

/* How the offset moved since from_ns (host time); NULL while there are no bounds of both kinds.
 * Valid until the next call; found again only if it would differ. */
const struct clock_pace *clock_history_pace(struct clock_history *h, int64_t from_ns);

/*
 * A knot of a map of the past: the interval at host time at_ns by the bounds of this part, and the best guess
 * in it. *bend gets the limits of the rate around that time. False if the bounds contradict each other at any
 * rate.
 */
bool clock_history_knot(struct clock_history *h, const struct clock_pace *p, struct clock_part part,
			int64_t at_ns, struct clock_knot *out, struct bend *bend);

/*
 * The same for a model of now, if no step of the rate is still unknown. *drift is how far the rate may
 * stray from the pace's where there are no bounds.
 */
bool clock_history_now(const struct clock_history *h, const struct clock_pace *p, int64_t at_ns,
		       struct clock_knot *out, double *drift);

/* The median distance, over [from, to], of a train's best probe from the line through its neighbours. */
int64_t clock_history_jitter_ns(const struct clock_history *h, int64_t from_ns, int64_t to_ns);

#endif
