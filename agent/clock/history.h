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

/* Nor does a rate stray further from its mean: what does is a break. */
#define CLOCK_STRAY_MAX 120e-6

#define CLOCK_RATE_BASE_NS 2e9 /* least distance of two intervals that make a rate */

/* What the links around a time could hide. */
struct clock_hidden {
	double x, drift;
};

/* How the offset moved in a period. */
struct clock_pace {
	struct pace pace;
	double proved; /* the part of drift by which the mean rate is uncertain */
	double wander; /* the part that the bounds show */
	double span_ns; /* of the bounds that it was found from */
	struct clock_hidden *hidden; /* in order of time; belongs to the history */
	size_t n_hidden;
};

struct clock_history {
	enum clock_break cause;
	int64_t x0_ns, v0_ns; /* origin of the bounds: host time, offset */
	int64_t begin_ns, first_ns, last_ns; /* host time: of the break, of samples */
	int64_t jump_ns; /* of a break that the estimator found: the offset moved by at least this */
	struct bounds low, high;
	struct bounds tight_low, tight_high; /* pruned, for knots, if is_pruned */
	bool is_pruned;
	double certain_x; /* time of the newest bound */
	struct interval certain; /* what all bounds prove there; new bounds may not contradict it */
	struct pace cone; /* the pace that `certain` assumes */
	double anchor_x; /* what was certain some time ago: it proves the cone's rate */
	struct interval anchor;
	bool has_anchor;
	uint32_t probes;
	int64_t rtt_min_ns; /* -1 = none */

	struct clock_pace pace; /* as last found by clock_history_pace() */
	bool has_pace; /* and no sample came since */
	int64_t pace_from_ns;
};

/* The drift anywhere, whatever the rate does. */
double clock_pace_any(const struct clock_pace *p);

/* What the links around x could hide: a drift on top of pace.drift. */
double clock_pace_hidden(const struct clock_pace *p, double x);

struct clock_history *clock_history_new(enum clock_break cause, int64_t begin_ns);
void clock_history_free(struct clock_history *h); /* NULL is fine */

/*
 * By how much the offset moved at least, if no clock whose rate stays where it was can have given
 * both this sample and the history; 0 = one can. *rate: another rate within CLOCK_DRIFT_MAX could
 * have, instead.
 */
int64_t clock_history_contradiction_ns(const struct clock_history *h, const struct clock_sample *s,
				       bool *rate);
void clock_history_add(struct clock_history *h, const struct clock_sample *s);

/* Forgets bounds after this host time. False if none were left: then nothing is forgotten. */
bool clock_history_keep_until(struct clock_history *h, int64_t until_ns);

/* After `next` began because the clock broke, found by its samples alone: forgets the last bounds,
 * which may be from after the break. Keeps all if none were left. */
void clock_history_cut(struct clock_history *h, const struct clock_history *next);

/* A part of a history, in host time. */
struct clock_part {
	int64_t from_ns, to_ns;
};

/* In that time the offset was in [lo_ns, hi_ns]. */
struct clock_claim {
	struct clock_part when;
	int64_t lo_ns, hi_ns;
};

/* What the bounds of a short history say of each of its times. Of one kind of bounds, only their value. */
struct clock_claim clock_history_claim(const struct clock_history *h);

/*
 * The times around a claim of others, from the last that they are not of to the first: of bounds that
 * contradict it at any rate. Where none does, of the closest bounds of both kinds. INT64_MIN, INT64_MAX: there
 * are no bounds.
 */
struct clock_part clock_history_around(const struct clock_history *h, const struct clock_claim *c);

/* Forgets bounds before this host time. */
void clock_history_expire(struct clock_history *h, int64_t before_ns);

/* How the offset moved since from_ns (host time); NULL while there are no bounds of both kinds.
 * Valid until the next call; found again only if it would differ. */
const struct clock_pace *clock_history_pace(struct clock_history *h, int64_t from_ns);

/*
 * A knot of a map of the past: what is certain at host time at_ns by the bounds of this part, and the best
 * guess in it. *bend has the limits of the rate around it. False if the bounds contradict each other at any
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

/* Median distance of a train's best probe from the line through its neighbours, in [from, to]. */
int64_t clock_history_jitter_ns(const struct clock_history *h, int64_t from_ns, int64_t to_ns);

#endif
