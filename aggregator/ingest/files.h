/* SPDX-License-Identifier: Apache-2.0 */
/* A host's files from the spool into the store; the spool has them one after the other. Blocks: for workers. */
#ifndef AGGREGATOR_INGEST_FILES_H
#define AGGREGATOR_INGEST_FILES_H

#include <stdint.h>

#include "aggregator/ingest/part.h"
#include "base/err.h"

struct store;

struct ingest_files {
	struct store *store;
	const char *session, *run, *host; /* borrowed, like `bytes` */
	const uint64_t *bytes; /* of each */
	unsigned int n;
};

/* Stores the first file last: if it is there, all are. The part is complete. After a failure some files may be
 * there: ingest_files_remove(). */
MUST_CHECK int ingest_files_put(const struct ingest_files *f, const struct ingest_part *part,
				struct err *e);

/* Removes the files that are there; logs failures. */
void ingest_files_remove(const struct ingest_files *f);

#endif
