/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store that holds the sessions: whether it accepts writes, and what an earlier run left in it. A small
 * object is written every 2 s; a store that has not taken it within 2.5 s is not ready. Sessions that an
 * earlier run left are recovered in rounds, with one job per session, until none is left. So the store may be
 * down at the start, and a record that cannot be read delays no other session. Loop thread.
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

/* Who carries on what session_recover() hands out. */
struct session_heir {
	/* Makes of it what `take` needs. On a worker: with 10,000 hosts it blocks for a tenth of a second. */
	void *(*read)(const json_t *recoverable);
	void (*take)(void *arg, void *read_taken); /* on the loop; also while the store stops */
	/* The end of a session that was left, or taken up, was carried out: it is committed, or gone. On the loop; may be NULL. */
	void (*settled)(void *arg, const char *session);
	void *arg;
};

struct session_store {
	struct store *store;
	bool ready; /* it accepts writes, and what an earlier run left has been listed */
	struct err not_ready; /* why not */
	struct jobs *jobs;
	struct loop_timer probe_timer, round_timer;
	char nonce[17]; /* names this run in its ledger records */
	bool writable, probing;
	size_t recovering; /* jobs of the present round, including the one that lists */
	struct session_keys left; /* the sessions of an earlier run that are not recovered yet */
	struct session_keys
		awaited; /* of them: those for which session_store_release() is awaited */
	struct session_keys released; /* those that were awaited, and are not recovered yet */
	bool listed; /* `left` is known */
	bool swept; /* `left` is known, and none is left */
	unsigned int failed_rounds;
	struct session_heir heir; /* `take` is NULL before session_store_start() */
	bool stopping;
};

/*
 * Opens the store of this URL and recovers what an earlier run left; what can be carried on is added to the array
 * `recoverable`. A store that fails now may be back later: that is no error. Blocks: nothing is listening yet.
 */
MUST_CHECK int session_store_open(struct session_store *s, struct jobs *jobs, const char *url,
				  json_t *recoverable, struct err *e);

/* The same for readers alone: nothing is recovered, and nothing says that the store takes writes. */
MUST_CHECK int session_store_open_reads(struct session_store *s, struct jobs *jobs, const char *url,
					struct err *e);

/* Begins the probes, and goes on recovering: `heir` gets the sessions that could not be read before. */
void session_store_start(struct session_store *s, const struct session_heir *heir);

/* Whether an earlier run left this session, and it is not recovered yet. */
bool session_store_has_left(const struct session_store *s, const char *session);

/* A deletion or an import of this session was interrupted: it is carried on as after a restart. */
void session_store_take_up(struct session_store *s, const char *session);

/* The session is committed, and files of it may still come: the end in its ledger is carried out again as after a restart,
 * but only after session_store_release(), which does nothing if the session is not awaited. */
void session_store_await(struct session_store *s, const char *session);
void session_store_release(struct session_store *s, const char *session);

void session_store_stop(struct session_store *s); /* no probe and no round begins any more */
void session_store_close(struct session_store *s); /* stopped, and all jobs are done */

#endif
