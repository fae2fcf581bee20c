/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of sessions/ share; private to them. */
#ifndef AGGREGATOR_SESSIONS_SESSIONS_IMPL_H
#define AGGREGATOR_SESSIONS_SESSIONS_IMPL_H

#include <stdbool.h>

#include "aggregator/sessions/sessions.h"
#include "storage/store.h"

#define SESSIONS       "tutti/sessions/"
#define INDEX	       "tutti/index/"
#define RUNS	       "tutti/runs/"
#define FAILED	       "tutti/failed/"
#define MANIFEST_BYTES (64u << 20) /* 20,000 hosts need about 20 MB */

/* Calls `each` for the keys that start with `prefix` and are greater than `after` (may be NULL). */
MUST_CHECK int session_list_keys(struct store *s, const char *prefix, const char *after,
				 store_list_fn each, void *arg, struct err *e);

MUST_CHECK int session_remove_key(struct store *s, const char *key, struct err *e);

/* The key of a session's record; `name` is "manifest.json", or "" for the prefix of all its records. */
void session_record_key(const char *session, const char *name, char out[SESSION_KEY_BYTES]);

/* 0: there is no such object. ERR_EXISTS: there is. For decisions that remove something: what stands in front of a store
 * may answer "not found" in its place. So a listing, which is a document of the store's own, must lack it, too. */
MUST_CHECK int session_check_absent(struct store *s, const char *key, struct err *e);
MUST_CHECK int session_check_no_manifest(struct store *s, const char *session, struct err *e);

/* index.c */

/* Puts the lines of a session, whose manifest follows. */
MUST_CHECK int session_index_put(struct store *s, const json_t *manifest, struct err *e);

/* Removes all other lines of the session, which has this manifest now. */
MUST_CHECK int session_index_settle(struct store *s, const json_t *manifest, struct err *e);
MUST_CHECK int session_index_remove(struct store *s, const char *session, const char *run,
				    struct err *e);

/* Makes the lines anew from the manifest. `*out` is what they say, also after a failure if there is a manifest; else its
 * name is "". */
MUST_CHECK int session_index_rebuild(struct store *s, const char *session, struct session_line *out,
				     struct err *e);

MUST_CHECK int session_put_json(struct store *s, const char *key, const json_t *doc,
				unsigned int flags, struct err *e);

/* A new reference, with hosts packed; ERR_INVALID if it is longer than `max` or no JSON object. */
MUST_CHECK int session_get_text(struct store *s, const char *key, uint64_t max, struct buf *out,
				struct err *e);
MUST_CHECK int session_get_json(struct store *s, const char *key, uint64_t max, json_t **out,
				struct err *e);

#endif
