/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that come over HTTP with all their files (`tutti import`): begun with a list of the files, filled piece by
 * piece into the spool, checked, and stored as a whole. Until then nothing of it is in the store. An import that gets no
 * piece for IMPORT_IDLE_NS, or whose aggregator ends, is gone; the spool has no name for it, so nothing is left over.
 * Loop thread; workers write and check the bytes.
 */
#ifndef AGGREGATOR_IMPORTS_IMPORTS_H
#define AGGREGATOR_IMPORTS_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

#define IMPORTS_MAX	 16 /* at a time */
#define IMPORT_FILES_MAX 4096
#define IMPORT_IDLE_NS	 INT64_C(600000000000)

struct imports;
struct jobs;
struct session_store;

struct imports_env {
	struct jobs *jobs;
	struct session_store *store;
	const char *spool; /* directory for files under way */
};

/* Gets what a call gives: a document, borrowed, or an error. It may be called before the call returns. */
typedef void (*imports_done)(void *arg, const json_t *doc, const struct err *e);

struct imports *imports_new(const struct imports_env *env);
void imports_free(struct imports *im); /* all jobs are done; NULL is fine */

/*
 * `request` is as docs/schema/import-request.schema.json; `peer` is for the log. The document is as
 * import.schema.json, with the session's id. With `resume` in the request an import of the same files (name, size, checksum,
 * times, run) that is under way goes on, and the document says what has come of it.
 */
void imports_begin(struct imports *im, const json_t *request, const char *peer, imports_done done,
		   void *arg);

/*
 * The next bytes of a file, which are borrowed until `done`. ERR_EXISTS unless `offset` is where the file's bytes end so
 * far, ERR_LIMIT beyond its size, ERR_BUSY while another piece of it is being written.
 */
void imports_add(struct imports *im, const char *session, const char *file, uint64_t offset,
		 const void *data, size_t len, imports_done done, void *arg);

/*
 * All files are there: checks each (a whole XSpace with T0 in it, its checksum), stores them and commits the session. The
 * document is the manifest. An import whose files are wrong is gone; ERR_INVALID names file and place.
 */
void imports_commit(struct imports *im, const char *session, imports_done done, void *arg);

/* The run and the bytes that an import under way will have; false: there is none. `*run` is borrowed until the next call. */
bool imports_look(const struct imports *im, const char *session, const char **run, uint64_t *bytes);

/* Drops it. */
void imports_cancel(struct imports *im, const char *session, imports_done done, void *arg);

#endif
