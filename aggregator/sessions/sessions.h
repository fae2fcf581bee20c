/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in the store: names, keys, commit, listing, deletion. A session exists exactly when its
 * manifest does. Functions that block are for workers.
 *
 *   profiles/[<run>/]plugins/profile/<session>/<host>.xplane.pb     the files, in XProf's layout
 *                                            <host>~2.xplane.pb...  more files of a host, if one cannot hold it all
 *   tutti/sessions/<session>/manifest.json   the record of the session
 *   tutti/index/..., tutti/runs/<run>/...    what listings read (index.c)
 *   tutti/ledger/<session>.<N>.json          while it is under way: what recovery needs (ledger.h)
 *   tutti/failed/<session>.json              the record of a failed capture
 *   tutti/pins/<session>                     it is pinned (pins.h)
 */
#ifndef AGGREGATOR_SESSIONS_SESSIONS_H
#define AGGREGATOR_SESSIONS_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "proto/limits.h"
#include "storage/store.h"

struct buf;
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

/*
 * Stores the record of a failed capture, for callers who ask later, also after a restart. The newest 256 records
 * are kept. Both block.
 */
MUST_CHECK int session_record_failure(struct store *s, const char *session, const json_t *record,
				      struct err *e);
MUST_CHECK int session_load_failure(struct store *s, const char *session, json_t **record,
				    struct err *e); /* as session_load_manifest() */
MUST_CHECK int session_read_failure(struct store *s, const char *session, struct buf *text,
				    struct err *e); /* as it is stored */

/* The manifest as a new reference, with its hosts packed (json/packed.h), or as its stored text. Both block. */
MUST_CHECK int session_load_manifest(struct store *s, const char *session, json_t **manifest,
				     struct err *e);
MUST_CHECK int session_read_manifest(struct store *s, const char *session, struct buf *text,
				     struct err *e);

/* Whether a listing is to have this session. */
typedef bool (*session_wanted_fn)(void *arg, const char *session);

struct session_query {
	const char *run; /* only of this run; "" = without a run, NULL = all */
	const char *after; /* only after this name, which need not exist; NULL = from the first */
	size_t limit; /* at most so many */
	session_wanted_fn wanted; /* NULL = all; may block */
	void *arg;
};

/* Lists sessions as {"sessions": [SUMMARY]}, newest first by name. Blocks. */
MUST_CHECK int session_list(struct store *s, const struct session_query *q, json_t **out,
			    struct err *e);

/*
 * The marks of a session: {"owner": NAME, "namespaces": [NAME]}, without what is not known. Of a manifest or the record of a
 * failed capture, as a new reference; and of the session in the store, which blocks: ERR_NOT_FOUND if it has neither.
 */
json_t *session_marks_of(const json_t *document);
MUST_CHECK int session_load_marks(struct store *s, const char *session, json_t **out,
				  struct err *e);

/* What listings show of a session: a line of the index. */
struct session_line {
	char session[SESSION_NAME_BYTES];
	char run[LIMIT_RUN_NAME + 1];
	int64_t t0_ns, duration_ns;
	int64_t hosts, complete, partial, failed; /* hosts: all, and by state */
	int64_t bytes;
};

/* From the index, or from the manifest where the index does not tell; then it does from now on. Blocks. */
MUST_CHECK int session_load_line(struct store *s, const char *session, struct session_line *out,
				 struct err *e);

/* One session of the index. `line` is NULL if session_load_line() must be asked. False ends the walk. */
typedef bool (*session_each_fn)(void *arg, const char *session, const struct session_line *line);

/* Calls `each` for the sessions of the index, newest first; `run` as for session_list(). Lists keys, and reads no
 * object. Blocks. */
MUST_CHECK int session_each(struct store *s, const char *run, session_each_fn each, void *arg,
			    struct err *e);

/* One file in the store. */
struct session_file {
	char key[SESSION_KEY_BYTES];
	uint64_t size;
	char tag[STORE_TAG_MAX + 1]; /* of this version */
};

/* Finds a file that the manifest names ("a.xplane.pb"), without reading the manifest. ERR_NOT_FOUND: there is no such session or
 * file. Blocks. */
MUST_CHECK int session_find_file(struct store *s, const char *session, const char *file,
				 struct session_file *out, struct err *e);

/*
 * A session that is stored as a whole: all its files are there already. Its ledger says first that the session is to be
 * removed, and, once all files are stored, that it is committed: so a crash leaves either nothing or all of it.
 */
struct session_whole {
	json_t *manifest; /* borrowed; its session has no object in the store yet */
	const char *nonce; /* of this run of the aggregator */
	int (*put_files)(void *arg, struct err *e); /* create-only */
	void *arg;
};

/* After an error with `*begun` set it must be carried on with session_recover(), which removes what is there, or commits
 * it if everything was. Blocks. */
MUST_CHECK int session_put_whole(struct store *s, const struct session_whole *w, bool *begun,
				 struct err *e);

/* Removes the session, and XProf's caches beside its files. If it fails with `*begun` set, it must be carried
 * on with session_recover(). Blocks. */
MUST_CHECK int session_delete(struct store *s, const char *session, bool *begun, struct err *e);

/*
 * Recovers one session that has a ledger. If the session has ended, its end is carried out: the manifest is
 * written, or files are removed; `*out` is NULL. If it can be carried on, `*out` is an object with "record"
 * (the ledger's record), "ledger" (its number), "stored" (the bytes of each stored file) and, for a retry,
 * "manifest"; hosts are packed. A record that cannot be read is an error, and nothing of its session is removed.
 * Blocks.
 */
MUST_CHECK int session_recover(struct store *s, const char *session, json_t **out, struct err *e);

/* Checks that the numbers of a plan or a manifest are in range, and that its hosts are sorted and have names.
 * ERR_INVALID names what is wrong. */
MUST_CHECK int session_check_plan(const json_t *plan, const json_t *hosts, struct err *e);

/* ERR_EXISTS unless the last record of the ledger was written by the run of the aggregator with this nonce.
 * Blocks. */
MUST_CHECK int session_check_owner(struct store *s, const char *session, const char *nonce,
				   struct err *e);

/* Removes the files of a session that has neither ledger nor manifest. Such files are from a run that stored
 * them when another aggregator had already taken the session over and ended it. Blocks. */
MUST_CHECK int session_remove_orphans(struct store *s, const char *session, const char *run,
				      struct err *e);

/*
 * Removes files of a session that is not under way and whose manifest, if there is one, does not name them: an agent
 * has put them by a grant that outlived the session. Blocks.
 */
MUST_CHECK int session_remove_late(struct store *s, const char *session, const char *run,
				   struct err *e);

/* The same for each session that was committed or has failed since then, by the time of its objects. Lists the whole
 * index. */
MUST_CHECK int session_remove_late_since(struct store *s, int64_t unix_ns, struct err *e);

/* Names or keys. Zeroed is empty. */
struct session_keys {
	char **items;
	size_t n;
};
void session_keys_release(struct session_keys *k);

/* Adds a copy of `key` to the struct session_keys. A store_list_fn: `st` is not used. */
struct store_stat;
bool session_keys_add(void *keys, const char *key, const struct store_stat *st);

/* The names of the sessions that have a ledger, sorted. Blocks. */
MUST_CHECK int session_list_left(struct store *s, struct session_keys *names, struct err *e);

#endif
