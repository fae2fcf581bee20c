/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session clock: CLOCK_MONOTONIC_RAW plus a constant, which makes it read as Unix time; it is never stepped.
 * The constant is written into the spool, so that the next run on the same boot goes on with the same clock:
 * the times that agents were given keep their meaning, and agents their calibration.
 */
#ifndef AGGREGATOR_TIME_SESSION_CLOCK_H
#define AGGREGATOR_TIME_SESSION_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define SESSION_CLOCK_FILE "session-clock.json" /* in the spool */

struct session_clock {
	int64_t shift_ns; /* session clock = CLOCK_MONOTONIC_RAW + this */
	uint64_t epoch; /* random; agents measure anew when it changes */
	bool kept; /* the clock of an earlier run goes on */
};

int64_t session_clock_now(const struct session_clock *c);

/* Takes the clock of the run before, from the spool, which is there, if it is needed (captures are to be
 * carried on) or has not drifted from this host's wall clock; else sets a new one. */
void session_clock_load(struct session_clock *c, const char *spool, bool needed);

#endif
