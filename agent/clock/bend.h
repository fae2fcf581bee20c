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
/* The largest rate that knots allow, a little above CLOCK_DRIFT_MAX: with CLOCK_DRIFT_MAX itself, the offset of a
 * clock that drifts at the limit could only lie at one end of its interval. */
#define CLOCK_RATE_MAX (1.1 * CLOCK_DRIFT_MAX)
/* The turn, which is the tolerance of the assumption that the rate only falls (or only rises): it may still change
 * the other way by this much per ns (2.6 ppm a second). */
#define CLOCK_TURN_MAX 2.6e-15

struct bend {
	struct interval at; /* the offset */
	/* Limits of the rate in the gap before this time and in the gap after it. If the rate falls, it is
	 * at least before.lo in the gap before and at most after.hi in the gap after; if it rises, at most
	 * before.hi in the gap before and at least after.lo in the gap after. If the bounds rule out a
	 * falling rate, before.lo is INFINITY and after.hi is -INFINITY; if they rule out a rising one,
	 * after.lo is INFINITY and before.hi is -INFINITY. */
	struct interval before, after;
};

/* Fills `out` with the bounds of b that do not follow from another one at every rate up to CLOCK_RATE_MAX. The bounds
 * of delayed packets do: they prove nothing more, but would take places among the closest bounds, which bend_at()
 * uses. `sign` as in bounds_add(). */
void bounds_prune(const struct bounds *b, int sign, struct bounds *out);

/*
 * Finds the interval of the offset at x, and the limits of the rate around x. Needs pruned bounds. On each side of x
 * uses bounds up to 5 s from the closest one, fewer if neither a falling nor a rising rate explains them all. If
 * neither explains even the closest ones, the offset may have jumped at x. False if there are no lower or no upper
 * bounds; if the offset may have jumped, also if one side of x lacks either kind.
 */
bool bend_at(const struct bounds *low, const struct bounds *high, double x, struct bend *out);

#endif
