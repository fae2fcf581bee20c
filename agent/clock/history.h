/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds that the probes gave since the last break of the host's clock, and the pace of the
 * offset that follows from them. Part of the estimator; loop thread.
 */
#ifndef AGENT_CLOCK_HISTORY_H
#define AGENT_CLOCK_HISTORY_H

#include "agent/clock/envelope.h"
#include "agent/clock/model.h"
#include "agent/clock/sample.h"

/* Crystals are within 100 ppm of their nominal rate; the rest is for their wander. */
#define CLOCK_DRIFT_MAX 120e-6

/* How the offset moved in a period. */
struct clock_pace {
	struct pace pace;
	double wander; /* the part of drift that the bounds show */
	double span_ns; /* of the bounds that it was found from */
};

struct clock_history {
	enum clock_break cause;
	int64_t x0_ns, v0_ns; /* origin of the bounds: host time, offset */
	int64_t begin_ns, first_ns, last_ns; /* host time: of the break, of samples */
	struct bounds low, high;
	double certain_x; /* what all bounds prove together at the time of the newest one, */
	struct interval certain; /* at CLOCK_DRIFT_MAX: new bounds may not contradict it */
	uint32_t probes;
	int64_t rtt_min_ns; /* -1 = none */

	struct clock_pace pace; /* as last found by clock_history_pace() */
	bool has_pace; /* and no sample came since */
	int64_t pace_from_ns;
};

/* The drift where there are no bounds: near them, and anywhere. */
double clock_pace_beyond(const struct clock_pace *p);
double clock_pace_any(const struct clock_pace *p);

struct clock_history *clock_history_new(enum clock_break cause, int64_t begin_ns);
void clock_history_free(struct clock_history *h); /* NULL is fine */

/* No clock within CLOCK_DRIFT_MAX can have given both this sample and the history. */
bool clock_history_contradicts(const struct clock_history *h, const struct clock_sample *s);
void clock_history_add(struct clock_history *h, const struct clock_sample *s);

/* Forgets bounds before this host time. */
void clock_history_expire(struct clock_history *h, int64_t before_ns);

/* How the offset moved since from_ns (host time); NULL while there are no bounds of both kinds.
 * Valid until the next call; found again only if it would differ. */
const struct clock_pace *clock_history_pace(struct clock_history *h, int64_t from_ns);

/* What is certain at host time at_ns, and the best guess in it. False if the bounds exclude each
 * other at any pace. */
bool clock_history_knot(const struct clock_history *h, const struct clock_pace *p, int64_t at_ns,
			struct clock_knot *out);

/* Median distance of a train's best probe from the line through its neighbours, in [from, to]. */
int64_t clock_history_jitter_ns(const struct clock_history *h, int64_t from_ns, int64_t to_ns);

#endif
