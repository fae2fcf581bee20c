/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store that holds the sessions: whether it accepts writes, and what an earlier run left in it. A small object
 * is written every 2 s; a store that has not taken it within 2.5 s is not ready. What an earlier run left is
 * recovered session by session, in rounds until none is left: a store that is down at the start, or a record
 * that cannot be read for a while, costs nothing. Loop thread.
 */
#ifndef AGGREGATOR_SESSIONS_SESSION_STORE_H
#define AGGREGATOR_SESSIONS_SESSION_STORE_H

#include <stdbool.h>

#include <jansson.h>

#include "aggregator/sessions/sessions.h"
#include "base/err.h"
#include "base/loop.h"

struct jobs;
struct store;

/* Takes what session_sweep_round() found recoverable. */
typedef void (*session_recovered_fn)(void *arg, const json_t *recoverable);

struct session_store {
	struct store *store;
	bool ready; /* it accepts writes, and what an earlier run left has been listed */
	struct err not_ready; /* why not */
	struct jobs *jobs;
	struct loop_timer probe_timer, sweep_timer;
	bool writable, probing, sweeping;
	struct session_sweep sweep; /* belongs to a job while `sweeping` */
	bool listed; /* what an earlier run left has been listed */
	bool swept; /* nothing of an earlier run is left to recover or remove */
	unsigned int failed_rounds; /* of the sweep */
	session_recovered_fn recovered;
	void *arg;
	bool stopping;
};

/*
 * Opens and claims the store of this URL, and sweeps it; `recoverable` as for session_sweep_round(). A store
 * that fails now may be back later: that is no error. Blocks: nothing is listening yet.
 */
MUST_CHECK int session_store_open(struct session_store *s, struct jobs *jobs, const char *url,
				  json_t *recoverable, struct err *e);

/* Begins the probes, and goes on with what the store did not give yet: `recovered` gets it. */
void session_store_start(struct session_store *s, session_recovered_fn recovered, void *arg);

void session_store_stop(struct session_store *s); /* no probe and no round begins any more */
void session_store_close(struct session_store *s); /* stopped, and all jobs are done */

#endif
