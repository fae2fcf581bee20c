/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of sessions/ share; private to them. */
#ifndef AGGREGATOR_SESSIONS_SESSIONS_IMPL_H
#define AGGREGATOR_SESSIONS_SESSIONS_IMPL_H

#include <stdbool.h>

#include "aggregator/sessions/sessions.h"
#include "storage/store.h"

#define SESSIONS       "tutti/sessions/"
#define INDEX	       "tutti/index/"
#define FAILED	       "tutti/failed/"
#define MANIFEST_BYTES (64u << 20) /* 20,000 hosts need about 20 MB */

/* Zeroed is empty. */
struct session_keys {
	char **items;
	size_t n;
};

bool session_keys_add(void *keys, const char *key,
		      const struct store_stat *st); /* for store_list() */
void session_keys_release(struct session_keys *k);

/* Calls `each` for the keys that start with `prefix` and are greater than `after` (may be NULL). */
MUST_CHECK int session_list_keys(struct store *s, const char *prefix, const char *after,
				 store_list_fn each, void *arg, struct err *e);

MUST_CHECK int session_remove_key(struct store *s, const char *key, struct err *e);

/* The key of a session's record; `name` is "plan.json", for example. */
void session_record_key(const char *session, const char *name, char out[SESSION_KEY_BYTES]);

/* The session in an index key; NULL if it is not an index key. */
const char *session_of_index(const char *key);

MUST_CHECK int session_put_json(struct store *s, const char *key, const json_t *doc,
				unsigned int flags, struct err *e);

/* A new reference; ERR_INVALID if it is longer than `max` or no JSON object. */
MUST_CHECK int session_get_json(struct store *s, const char *key, uint64_t max, json_t **out,
				struct err *e);

/* retry.json, a new reference. */
MUST_CHECK int session_load_retry(struct store *s, const char *session, json_t **retry,
				  struct err *e);

#endif
