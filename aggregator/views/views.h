/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions as viewers read them. A view is an open session: each of its files with an index (xspace/tvx/tvx.h). It is
 * made when a viewer opens the session, one session after the other, on a worker; until all is indexed there are views
 * of the tracks so far, each replaced by the next. The indexes are kept in a folder of the aggregator, where the oldest go
 * when they exceed a bound. What is damaged there is made anew; what an aggregator left unfinished is, too.
 *
 * Loop thread; view_*() of queries.h run on workers.
 */
#ifndef AGGREGATOR_VIEWS_VIEWS_H
#define AGGREGATOR_VIEWS_VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct jobs;
struct session_store;
struct view;
struct views;

struct views_env {
	struct jobs *jobs;
	struct session_store *store;
	const char *folder; /* where indexes are kept: made when the first one is */
	uint64_t kept_bytes; /* of all of them, at most */
};

struct views *views_new(const struct views_env *env);
void views_stop(struct views *v); /* indexes that are being built end soon, without success */
void views_free(struct views *v); /* all jobs are done; NULL is fine */

enum view_state { VIEW_WAITING, VIEW_BUILDING, VIEW_READY, VIEW_FAILED };

/* Whose a failure is. */
enum view_fault {
	FAULT_OURS,
	FAULT_FILES, /* what the files hold: none of them can be shown */
	FAULT_STORE, /* the store does not give the files now */
};

struct view_progress {
	enum view_state state;
	uint64_t done, bytes; /* of the session's files */
	struct err why; /* VIEW_FAILED */
	enum view_fault fault; /* VIEW_FAILED */
};

/*
 * The newest view of a session with this manifest; it is made if there is none, or if the one that is there has another
 * manifest. Sets `*out`, which the caller releases, as soon as there is one, complete or not; but not to one that is not
 * complete and has the build `known_build` (or NULL). After VIEW_FAILED the next call begins again.
 */
void views_open(struct views *v, const char *session, const char *manifest, size_t len,
		const char *known_build, struct view **out, struct view_progress *progress);

/* The view that has this build, if it is the newest one or, for a while, the one before; else NULL. The caller releases it. */
struct view *views_find(struct views *v, const char *session, const char *build);
void view_release(struct view *view); /* NULL is fine */

/* An index of the view turned out to be damaged, and view_discard() has removed them: the session is made anew when it is opened next. */
void views_drop(struct views *v, const struct view *view);

/* The session is gone: its view closes, and its indexes are removed. */
void views_forget(struct views *v, const char *session);

#endif
