/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A follower's measurement of the leader's session clock, so that it can go on with it when it leads on another machine:
 * it probes the leader's time service as agents do. Loop thread.
 */
#ifndef AGGREGATOR_TIME_LEADER_CLOCK_H
#define AGGREGATOR_TIME_LEADER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct leader_clock;
struct loop;
struct session_clock_seen;

struct leader_clock *leader_clock_new(struct loop *loop);
void leader_clock_free(struct leader_clock *lc); /* NULL is fine */

/* Probes the leader whose HTTP is at `url`, and whose session clock (schema session-clock) is `clock`. Without a URL,
 * or without a clock that says where it is probed, nothing is. What was measured of another clock is forgotten. */
void leader_clock_set(struct leader_clock *lc, const char *url, const json_t *clock);

/* What is known of the clock with this epoch, as of now. False: nothing. */
bool leader_clock_read(const struct leader_clock *lc, uint64_t epoch,
		       struct session_clock_seen *out);

#endif
