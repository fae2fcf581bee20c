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

#include <jansson.h>

#include "proto/siphash.h"

#define SESSION_CLOCK_FILE "session-clock.json" /* in the spool */

/* How fast two machines' raw clocks drift apart at most: docs/time.md. */
#define SESSION_CLOCK_DRIFT 500e-6

#define SESSION_CLOCK_CHANGES \
	32 /* the latest ones are kept: more than there are in the life of a capture */

/* This clock went on where the one of another machine ended (docs/replicas.md). */
struct session_clock_change {
	uint64_t epoch; /* of the former clock */
	int64_t shift_ns; /* its shift, on its machine: captures name it */
	int64_t from_ns; /* the former clock was certainly in use until then */
	int64_t at_ns; /* this clock began */
	int64_t bound_ns; /* from from_ns to at_ns the two differed by this much at most */
};

struct session_clock {
	int64_t shift_ns; /* session clock = CLOCK_MONOTONIC_RAW + this */
	int64_t tick_ns; /* it reads up to this much early */
	uint64_t epoch; /* random; agents measure anew when it changes */
	bool kept; /* it is the clock of the previous run, or goes on with it */
	struct session_clock_change changes[SESSION_CLOCK_CHANGES]; /* the latest one first */
	unsigned int n_changes;
};

int64_t session_clock_now(const struct session_clock *c);

/*
 * Continues the clock of the previous run if the spool has it, and either `needed` is true (captures are to
 * be carried on) or it is within a second of this host's wall clock. Else sets a new clock. The spool exists.
 */
void session_clock_load(struct session_clock *c, const char *spool, bool needed);

/* Whether times of the clock with this shift are times of this one: it is the same, or one that this goes on with. */
bool session_clock_knows(const struct session_clock *c, int64_t shift_ns);

/* By how much times of [t0_ns, t1_ns) may differ between two hosts beyond what their own bounds say, because one of them
 * used a former clock there, and the other one this. */
int64_t session_clock_doubt_ns(const struct session_clock *c, int64_t t0_ns, int64_t t1_ns);

/* What another machine's session clock was against this machine's raw clock. */
struct session_clock_seen {
	int64_t raw_ns; /* when this holds */
	/* that clock was certainly ahead of raw by something between these, ever since it was last heard */
	int64_t lo_ns, hi_ns;
	int64_t from_ns; /* its time when it was last heard */
};

/* Whether the document (schema session-clock) is of this machine and boot. */
bool session_clock_is_here(const json_t *doc);

/* The document (schema session-clock) of a clock of this machine that goes on with the `former` one. */
json_t *session_clock_go_on(const json_t *former, const struct session_clock_seen *seen);

/* Where followers probe this clock: added to the file of session_clock_load(). */
void session_clock_save_probe(const char *spool, int port, uint64_t cookie,
			      const struct siphash_key *key);

#endif
