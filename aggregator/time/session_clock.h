/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session clock: CLOCK_MONOTONIC_RAW plus a constant that makes it read as Unix time; it is never stepped.
 * The constant is kept in the spool for the next run on the same boot: times that agents were given keep
 * their meaning, and agents keep their calibration.
 */
#ifndef AGGREGATOR_TIME_SESSION_CLOCK_H
#define AGGREGATOR_TIME_SESSION_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define SESSION_CLOCK_FILE "session-clock.json" /* in the spool */

struct session_clock {
	int64_t shift_ns; /* session clock = CLOCK_MONOTONIC_RAW + this */
	int64_t tick_ns; /* it reads up to this much early */
	uint64_t epoch; /* random; agents measure anew when it changes */
	bool kept; /* it is the clock of the previous run */
};

int64_t session_clock_now(const struct session_clock *c);

/*
 * Continues the clock of the previous run if the spool has it, and either `needed` is true (captures are to
 * be carried on) or it is within a second of this host's wall clock. Else sets a new clock. The spool exists.
 */
void session_clock_load(struct session_clock *c, const char *spool, bool needed);

#endif
