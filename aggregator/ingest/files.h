/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a host's files from the spool to the store. In the spool they are one upload: one file after the
 * other. Blocks: for workers. */
#ifndef AGGREGATOR_INGEST_FILES_H
#define AGGREGATOR_INGEST_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregator/ingest/spooled_upload.h"
#include "base/err.h"

struct store;

struct ingest_files {
	struct store *store;
	const char *nonce; /* of this run of the aggregator */
	const char *session, *run, *host; /* borrowed, like `bytes` */
	const uint64_t *bytes; /* of each */
	unsigned int n;
};

/*
 * Stores the files of a complete upload, the first one last: if that is in the store, all are. A file that is
 * there already and has the same bytes stays; another one is replaced, because no manifest names it yet.
 * ERR_EXISTS if another aggregator owns the session and has stored another file. After a failure the store
 * may have some of the files.
 */
MUST_CHECK int ingest_files_put(const struct ingest_files *f, const struct spooled_upload *upload,
				struct err *e);

/* Removes those of the files that are in the store. False, with a line in the log, if some may be left. */
bool ingest_files_remove(const struct ingest_files *f);

#endif
