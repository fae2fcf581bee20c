/* SPDX-License-Identifier: Apache-2.0 */
/* From the spool into the store: a host's files, which lie one after the other. Blocks: for workers. */
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

/* The first file last: where it is, all are. Nobody writes to the part any more. After a failure some
 * may be there: ingest_files_remove(). */
MUST_CHECK int ingest_files_put(const struct ingest_files *f, const struct ingest_part *part,
				struct err *e);

/* Takes away what is there of them; what cannot be is logged. */
void ingest_files_remove(const struct ingest_files *f);

#endif
