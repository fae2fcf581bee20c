/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to take a step down, and when to take one back: a value, given once a second, should stay below a limit. A step
 * down is due when the mean of THROTTLE_WINDOW values is above the limit; a step up, when the mean has been below four
 * fifths of the limit for a minute. A step up that has to be taken back within twice its patience doubles that, up to
 * an hour. Pure.
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
	size_t n; /* ever, since the last move */
	unsigned int steps; /* down, now */
	int64_t calm_ns; /* since when it has been well below; 0 = it is not */
	int64_t patience_ns;
	int64_t up_ns; /* when the last step up was taken; 0 = never */
};

enum throttle_move { THROTTLE_STAY, THROTTLE_DOWN, THROTTLE_UP };

/* Zeroed but for `limit` it is ready. Returns what is due. */
enum throttle_move throttle_add(struct throttle *t, int64_t mono_ns, double value);

/* What was due has been done, or THROTTLE_STAY: it could not be; begins a new mean. */
void throttle_done(struct throttle *t, int64_t mono_ns, enum throttle_move move);

/* Of the last values; 0 without any. */
double throttle_mean(const struct throttle *t);

#endif
