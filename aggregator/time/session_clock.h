/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session clock over restarts. It is CLOCK_MONOTONIC_RAW plus a constant; the constant is written
 * into the spool, so that the next run on the same boot goes on with the same clock: the times that
 * agents were given keep their meaning, and agents their calibration.
 */
#ifndef AGGREGATOR_TIME_SESSION_CLOCK_H
#define AGGREGATOR_TIME_SESSION_CLOCK_H

struct aggregator;

#define SESSION_CLOCK_FILE "session-clock.json" /* in the spool */

/* The spool is there. Takes the clock of the run before if captures wait to be carried on, or if it
 * has not drifted from this host's real time; else sets a new one. */
void session_clock_start(struct aggregator *agg);

#endif
