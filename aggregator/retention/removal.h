/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes sessions from the store, for a request or for a rule, and holds which sessions a request works on: only one
 * of deletion, retry and pinning at a time has a session. Loop thread.
 */
#ifndef AGGREGATOR_RETENTION_REMOVAL_H
#define AGGREGATOR_RETENTION_REMOVAL_H

#include <stdbool.h>

#include "base/err.h"

struct captures;
struct jobs;
struct removals;
struct session_store;

struct removals_env {
	struct jobs *jobs;
	struct session_store *store;
	struct captures *captures;
};
struct removals *removals_new(const struct removals_env *env);
void removals_free(struct removals *r); /* all jobs are done; NULL is fine */

/* Calls `fn` for every session that was removed. */
void removals_watch(struct removals *r, void (*fn)(void *arg, const char *session), void *arg);

/* False if the session is claimed already. */
MUST_CHECK bool removals_claim(struct removals *r, const char *session);
void removals_release(struct removals *r, const char *session);

enum removal_end {
	REMOVAL_DONE,
	REMOVAL_REFUSED, /* the session is in use, or pinned: nothing has changed */
	REMOVAL_FAILED, /* the store has failed; what was begun is carried on */
};

typedef void (*removal_done)(void *arg, enum removal_end end, const struct err *e);

/* `by` is for the log: the caller's address, or the rule. It may call `done` before it returns. */
void removals_begin(struct removals *r, const char *session, const char *by, removal_done done,
		    void *arg);

#endif
