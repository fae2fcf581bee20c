/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one-sided bounds prove about the offset and its rate at a time. The assumption is that around that
 * time the rate only falls (the offset bends down) or only rises. Which of the two, when, how often and by
 * how much does not matter: docs/time.md has the proof. Pure; nanoseconds in double, as in
 * agent/clock/envelope.h.
 */
#ifndef AGENT_CLOCK_BEND_H
#define AGENT_CLOCK_BEND_H

#include "agent/clock/envelope.h"

/* The largest difference of two clocks' rates. Two crystals of 100 ppm may differ by 200; steered clocks and
 * those of virtual machines by more. */
#define CLOCK_DRIFT_MAX 500e-6
/* Maps allow at least this rate: with the limit itself, an offset could only be at the end of its interval. */
#define CLOCK_RATE_MAX (1.1 * CLOCK_DRIFT_MAX)
/* The turn: a rate that only falls (or rises) may still go the other way by this much per ns, 2.6 ppm a
 * second. */
#define CLOCK_TURN_MAX 2.6e-15

struct bend {
	struct interval at; /* the offset */
	/* Limits of the rate in the gap before this time and in the one after it. A falling rate
	 * is at most after.hi then and was at least before.lo; a rising one is at least after.lo
	 * and was at most before.hi. Where the rate cannot have changed that way, they are
	 * infinite and exclude nothing else. */
	struct interval before, after;
};

/* Fills `out` with the bounds that no other bound implies at any rate. Bounds of delayed packets prove
 * nothing more, but would be among the closest. `sign` as in bounds_add(). */
void bounds_prune(const struct bounds *b, int sign, struct bounds *out);

/*
 * Needs pruned bounds. Uses bounds up to 5 s from the closest one before x and after it; fewer if neither
 * bending down nor up explains them all. If neither explains even the closest ones, the offset may have
 * jumped at x. False without bounds of both kinds; at a jump, if one of its sides lacks them.
 */
bool bend_at(const struct bounds *low, const struct bounds *high, double x, struct bend *out);

#endif
