/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one-sided bounds prove about the offset at a time and about its rate there, if around that
 * time the rate either only falls (the offset bends down) or only rises. Which of the two, how
 * often, when and by how much is not assumed: docs/time.md has the proof. Pure; nanoseconds in
 * double, as in agent/clock/envelope.h.
 */
#ifndef AGENT_CLOCK_BEND_H
#define AGENT_CLOCK_BEND_H

#include "agent/clock/envelope.h"

/* No two clocks differ by more. Two crystals of 100 ppm are 200 apart; steered clocks and those of
 * virtual machines go further. */
#define CLOCK_DRIFT_MAX 500e-6
/* No map allows less: at the limit itself, an offset would be at the end of its interval. */
#define CLOCK_RATE_MAX (1.1 * CLOCK_DRIFT_MAX)
/* Whichever way it changes, a rate may turn the other way by this much per ns: 2.6 ppm a second. */
#define CLOCK_TURN_MAX 2.6e-15

struct bend {
	struct interval at; /* the offset */
	/* Limits of the rate in the gap before this time and in the one after it. A falling rate
	 * is at most after.hi then and was at least before.lo; a rising one is at least after.lo
	 * and was at most before.hi. Where the rate cannot have changed that way, they are
	 * infinite and exclude nothing else. */
	struct interval before, after;
};

/* Fills out with the bounds that no other one implies at any rate: those of packets that were held
 * up prove nothing, but would be the closest. `sign` as in bounds_add(). */
void bounds_prune(const struct bounds *b, int sign, struct bounds *out);

/*
 * From pruned bounds. Uses those up to 5 s from the closest one before x and after it; fewer, where
 * neither way of bending explains them all. Where neither explains the closest ones, the offset may
 * have jumped at x. False without bounds of both kinds, or on one side of a jump.
 */
bool bend_at(const struct bounds *low, const struct bounds *high, double x, struct bend *out);

#endif
