/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one-sided bounds prove about the offset and its rate at a time. The assumption is that around that
 * time the rate changes its direction once at most: it rises and then falls, or falls and then rises, or only
 * does one of these. When, how often, for how long and by how much does not matter: docs/time.md has the proof.
 * Pure; nanoseconds in double, as in agent/clock/envelope.h.
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
/* The turn, which is the tolerance of that assumption: while the rate falls, it may still rise by this much per ns
 * (2.6 ppm a second), and the other way round. */
#define CLOCK_TURN_MAX 2.6e-15
struct bend {
	/* The offset, if the rate has a peak, which may be at any time: it only rises before and only falls after
	 * that. And the offset if the rate has a dip instead. If the bounds rule out one of the two, both are of the
	 * other. */
	struct interval peak, dip;
	/* Limits of the rate in the gap before this time and in the gap after it. If the rate falls from this
	 * time on, it is at least before.lo in the gap before; if it rises from then on, at most before.hi. If
	 * it rises up to this time and further, it is at least after.lo in the gap after; if it falls up to then
	 * and further, at most after.hi. */
	struct interval before, after;
	bool jumped; /* no such rate explains the bounds: the offset may have jumped around this time */
};

/* Fills `out` with the bounds of b that do not follow from another one at every rate up to CLOCK_RATE_MAX. The bounds
 * of delayed packets do: they prove nothing more, but would take places among the closest bounds, which bend_at()
 * uses. `sign` as in bounds_add(). */
void bounds_prune(const struct bounds *b, int sign, struct bounds *out);

/* Where the bounds around the last x were, in both kinds. Zero at first; the next x is found quickly if it is close. */
struct bend_near {
	size_t low, high;
};

/*
 * Finds the interval of the offset at x, and the limits of the rate around x. Needs pruned bounds. On each side of x
 * uses bounds up to 5 s from the closest one, fewer if no rate that changes its direction once explains them all. If
 * none explains even the closest ones, the offset may have jumped at x. False if there are no lower or no upper
 * bounds; if the offset may have jumped, also if one side of x lacks either kind.
 */
bool bend_at(const struct bounds *low, const struct bounds *high, double x, struct bend_near *near,
	     struct bend *out);

#endif
