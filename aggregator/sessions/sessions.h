/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in the store: names, keys, commit, listing, deletion. A session exists exactly when its
 * manifest does. Functions that block are for workers.
 *
 *   profiles/[<run>/]plugins/profile/<session>/<host>.xplane.pb     the files, in XProf's layout
 *                                            <host>~2.xplane.pb...  more files of a host, if one cannot hold it all
 *   tutti/sessions/<session>/{plan,manifest,retry}.json             the plan, the manifest, a retry under way
 *   tutti/index/..., tutti/runs/<run>/...                           what listings read (index.c)
 *   tutti/failed/<session>.json                                     the record of a failed capture
 */
#ifndef AGGREGATOR_SESSIONS_SESSIONS_H
#define AGGREGATOR_SESSIONS_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "proto/limits.h"

struct store;

#define SESSION_NAME_BYTES LIMIT_SESSION_NAME
#define SESSION_KEY_BYTES  512

/* Key prefix of a session's files, ends with '/'; `run` may be NULL or "". */
void session_directory(const char *session, const char *run, char out[SESSION_KEY_BYTES]);

/* Key of a file: `file` is from name_of_file(). */
void session_file_key(const char *session, const char *run, const char *file,
		      char out[SESSION_KEY_BYTES]);

/* A host's first file is "<host>.xplane.pb". It is stored last: if it is there, all are. */
#define SESSION_FILE_SUFFIX ".xplane.pb"

/* Writes the plan, before any host is armed; it has at least "session" and "run". Blocks. */
MUST_CHECK int session_create_plan(struct store *s, const char *session, const json_t *plan,
				   struct err *e);

/* Replaces the plan, because the window changed. Blocks. */
MUST_CHECK int session_update_plan(struct store *s, const char *session, const json_t *plan,
				   struct err *e);

/* Writes the index entry, then the manifest. ERR_EXISTS if the session is committed. Blocks. */
MUST_CHECK int session_commit(struct store *s, const char *session, const json_t *manifest,
			      struct err *e);

/*
 * A retry of a committed session. `retry` has what recovery needs, at least "hosts", the names of the retried
 * hosts. It is stored before the first of them is asked and removed after the new manifest, so that a sweep
 * can find files that no manifest names; it may be replaced. The new manifest replaces the old one in one
 * step: a reader sees either. session_retry_undo() leaves the session as it was. All block.
 */
MUST_CHECK int session_retry_begin(struct store *s, const char *session, const json_t *retry,
				   struct err *e);
MUST_CHECK int session_retry_commit(struct store *s, const char *session, const json_t *manifest,
				    struct err *e);
MUST_CHECK int session_retry_undo(struct store *s, const char *session, struct err *e);

/* Removes the files of a session, and nothing else. Blocks. */
MUST_CHECK int session_remove_files(struct store *s, const char *session, const char *run,
				    struct err *e);

/* Removes all objects of a session: files, manifest if any, plan. Blocks. */
MUST_CHECK int session_discard(struct store *s, const char *session, const char *run, int64_t t0_ns,
			       struct err *e);

/*
 * Stores the record of a failed capture, for callers who ask later, also after a restart. Recovery ignores the
 * capture from here on; session_discard() must follow. The newest 256 records are kept. Both block.
 */
MUST_CHECK int session_record_failure(struct store *s, const char *session, const json_t *record,
				      struct err *e);
MUST_CHECK int session_load_failure(struct store *s, const char *session, json_t **record,
				    struct err *e); /* a new reference */

/* The manifest, a new reference. Blocks. */
MUST_CHECK int session_load_manifest(struct store *s, const char *session, json_t **manifest,
				     struct err *e);
MUST_CHECK int session_load_plan(struct store *s, const char *session, json_t **plan,
				 struct err *e);

/* {"sessions": [SUMMARY]}, newest first by name, at most `limit`: of `run` unless it is NULL ("" = of none), after
 * the session `after` unless it is NULL; that one need not exist. Blocks. */
MUST_CHECK int session_list(struct store *s, const char *run, const char *after, size_t limit,
			    json_t **out, struct err *e);

/*
 * Opens a file that the manifest names, without reading the manifest. ERR_NOT_FOUND: there is no such session or
 * file. The caller closes `*fd`. Blocks.
 */
MUST_CHECK int session_open_file(struct store *s, const char *session, const char *file, int *fd,
				 uint64_t *size, struct err *e);

/* Manifest first, then files, XProf's caches beside them, index, plan. Blocks. */
MUST_CHECK int session_delete(struct store *s, const char *session, struct err *e);

/*
 * Removes what a crash left: files of retries that were not committed; plans without a manifest, their files
 * and index entries. Captures that can be carried on are not removed but added to `recoverable`, an array or
 * NULL: a plan, with a member "stored" that has the bytes of each stored file; for a retry an object of
 * "retry", "manifest", "plan" (or null) and "stored". If the store fails for a session, the session is left
 * alone, the others are not, and the error is of the last such. Blocks.
 *
 * `w` is zeroed before the first round, and has what a later round has still to do: that one takes no other
 * sessions up. No capture may be under way until `listed`. session_sweep_release() frees what `w` has.
 */
struct session_sweep {
	bool listed; /* what an earlier run left is known */
	char **orphans, **retries; /* session names that are left; sorted */
	size_t n_orphans, n_retries;
};
MUST_CHECK int session_sweep_round(struct store *s, struct session_sweep *w, json_t *recoverable,
				   int *swept, struct err *e);
void session_sweep_release(struct session_sweep *w);

/* The only round. */
MUST_CHECK int session_sweep(struct store *s, json_t *recoverable, int *swept, struct err *e);

#endif
