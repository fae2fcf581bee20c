/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes sessions that the rules call old: looks at the index shortly after the start and then every few minutes, and
 * removes what is old, the oldest first and one after the other. What a kill interrupts is carried on after the next
 * start: a deletion is in the session's ledger. A store that fails is asked again later. Loop thread.
 */
#ifndef AGGREGATOR_RETENTION_RETENTION_H
#define AGGREGATOR_RETENTION_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregator/retention/removal.h"
#include "aggregator/retention/rules.h"
#include "base/loop.h"

struct jobs;
struct session_clock;
struct session_store;

struct retention_stats {
	uint64_t removed; /* sessions, since the start */
	uint64_t sessions, pinned, bytes; /* at the last look; bytes only with keep_bytes */
	bool looked;
};

struct retention_env {
	struct jobs *jobs;
	const struct session_clock
		*clock; /* what T0 counts on: a step of the wall clock makes nothing old */
	struct session_store *store;
	struct removals *removals;
	int64_t period_ns; /* between looks */
};

struct retention {
	struct retention_env env;
	struct retention_rules rules;
	struct loop_timer timer;
	struct retention_view view; /* a worker's while one looks */
	size_t next; /* of view.old */
	struct retention_stats stats;
	bool stopping;
};

/* `r->rules` is set and stays its own; everything else is zero. Does nothing without a rule. */
void retention_start(struct retention *r, const struct retention_env *env);
void retention_stop(struct retention *r); /* nothing more begins */
void retention_release(struct retention *r); /* stopped, and all jobs are done */

#endif
