/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in the store: names, keys, commit, listing, deletion. A session exists exactly when its
 * manifest does. Functions marked "blocks" belong into loop_work().
 *
 *   profiles/[<run>/]plugins/profile/<session>/<host>.xplane.pb     the files, XProf's layout; more of a
 *                                            <host>~2.xplane.pb...  host where one may not hold it all
 *   tutti/sessions/<session>/{plan,manifest}.json                   intent, and the commit record
 *   tutti/index/<reverse time>-<session>                            newest first in one listing
 *   tutti/failed/<session>.json                                     what became of a capture without a session
 */
#ifndef AGGREGATOR_SESSIONS_SESSIONS_H
#define AGGREGATOR_SESSIONS_SESSIONS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "proto/limits.h"

struct store;

#define SESSION_NAME_BYTES LIMIT_SESSION_NAME
#define SESSION_KEY_BYTES  512

/* Key prefix of a session's files, with the '/' at its end; `run` may be NULL or "". */
void session_directory(const char *session, const char *run, char out[SESSION_KEY_BYTES]);

/* Key of a file: `file` is a host's name or, for its further files, what name_of_file() says. */
void session_file_key(const char *session, const char *run, const char *file,
		      char out[SESSION_KEY_BYTES]);

/* Name of a host's first file: "<host>.xplane.pb". It is stored last: where it is, all are. */
#define SESSION_FILE_SUFFIX ".xplane.pb"

/* Writes the intent, before any host is armed; `plan` has at least "session" and "run". Blocks. */
MUST_CHECK int session_create_plan(struct store *s, const char *session, const json_t *plan,
				   struct err *e);

/* The same once more, because T0 moved. Blocks. */
MUST_CHECK int session_update_plan(struct store *s, const char *session, const json_t *plan,
				   struct err *e);

/* Writes index entry and manifest, last; ERR_EXISTS if it was committed before. Blocks. */
MUST_CHECK int session_commit(struct store *s, const char *session, const json_t *manifest,
			      struct err *e);

/*
 * A retry of a committed session: `retry` is what it takes to carry on after a crash, at least "hosts",
 * the names of those that are asked again. It is there from before the first of them is asked until the
 * new manifest is, so that a sweep can tell what of their files is named nowhere; it may be written anew.
 * The new manifest takes the place of the old one in one step: a reader sees either. Undoing leaves the
 * session as it was. All block.
 */
MUST_CHECK int session_retry_begin(struct store *s, const char *session, const json_t *retry,
				   struct err *e);
MUST_CHECK int session_retry_commit(struct store *s, const char *session, const json_t *manifest,
				    struct err *e);
MUST_CHECK int session_retry_undo(struct store *s, const char *session, struct err *e);

/* Removes all that is stored of a session that is not to be: files, manifest if any, plan. Blocks. */
MUST_CHECK int session_discard(struct store *s, const char *session, const char *run, int64_t t0_ns,
			       struct err *e);

/*
 * A capture fails: `record` is what whoever asks later, perhaps after a restart, is told of it. From here on it is not
 * carried on; session_discard() is to follow. Records of old failures go when there are many. Both block.
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

/* {"sessions": [SUMMARY]}, newest first, of `run` only if not NULL, those older than `after` if not
 * NULL, at most `limit`. Blocks. */
MUST_CHECK int session_list(struct store *s, const char *run, const char *after, size_t limit,
			    json_t **out, struct err *e);

/* Manifest first, then files, XProf's caches beside them, index, plan. Blocks. */
MUST_CHECK int session_delete(struct store *s, const char *session, struct err *e);

/*
 * What a crash left: files of retries that were not committed; plans without a manifest, their files
 * and index entries. What can be carried on is not swept if `resumable`, an array, is given. Added there
 * are plans, with a member "stored" that has the bytes of each host's file, and for a retry an object of
 * "retry", "manifest", "plan" (or null) and "stored". What the store fails to tell about is left as it is.
 * No capture may be under way. Blocks; at start.
 */
MUST_CHECK int session_sweep(struct store *s, json_t *resumable, int *swept, struct err *e);

#endif
