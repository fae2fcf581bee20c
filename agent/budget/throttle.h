/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to take a step down, and when to take one back: a value, given once a second, should stay below a limit. A step
 * down is due when the mean of THROTTLE_WINDOW values is above the limit; a step up, when the mean has been below four
 * fifths of the limit for the patience: a minute. If a step down follows a step up within twice the patience, the
 * patience doubles, up to an hour; any other step down resets it. Pure.
 */
#ifndef AGENT_BUDGET_THROTTLE_H
#define AGENT_BUDGET_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/now.h"

#define THROTTLE_WINDOW		 10 /* values */
#define THROTTLE_PATIENCE_NS	 (60 * NS_PER_S)
#define THROTTLE_PATIENCE_MAX_NS (3600 * NS_PER_S)

struct throttle {
	double limit; /* 0 = none: nothing is ever due */
	double values[THROTTLE_WINDOW]; /* since the last move, the newest ones */
	size_t n; /* all values since the last move, also those that are no longer kept */
	unsigned int steps; /* down, now */
	int64_t calm_ns; /* since when it has been well below; 0 = it is not */
	int64_t patience_ns;
	int64_t up_ns; /* when the last step up was taken; 0 = never */
};

enum throttle_move { THROTTLE_STAY, THROTTLE_DOWN, THROTTLE_UP };

/* Adds a value; returns what is due. A struct that is zero except for `limit` is ready for use. */
enum throttle_move throttle_add(struct throttle *t, int64_t mono_ns, double value);

/* To be called after a move was due: `move` is what was done, THROTTLE_STAY if nothing could be. Begins a new mean. */
void throttle_done(struct throttle *t, int64_t mono_ns, enum throttle_move move);

/* Of the last values; 0 without any. */
double throttle_mean(const struct throttle *t);

#endif
