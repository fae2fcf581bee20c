/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file on its way in: a growing file of the spool. One that may be resumed has a name made of session,
 * host, length and checksum, so that whoever comes back with the same file finds what is there of it,
 * also after the aggregator's end; another has no name and goes with its descriptor. What comes whole in
 * one chunk stays in memory: the store is where it belongs. Blocks: for workers, one at a time.
 */
#ifndef AGGREGATOR_INGEST_PART_H
#define AGGREGATOR_INGEST_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ingest_part {
	char *path; /* NULL: without a name */
	int fd; /* -1: not open, or all is in memory */
	const char *spool; /* borrowed */
	uint8_t *memory; /* all of it, or NULL */
	uint64_t bytes; /* of the whole file */
	uint32_t crc32; /* of the whole file; of no use without a name */
	uint64_t received; /* so many are there, from the start on */
	uint32_t crc32_received; /* of these */
};

/* What a part is of; borrowed for the call. */
struct ingest_part_id {
	const char *spool, *session, *host;
	uint64_t bytes;
	bool resume;
	uint32_t crc32;
};

/* Reads what is there and takes room for the rest: ERR_FULL where there is none. On failure nothing is
 * left open. */
MUST_CHECK int ingest_part_open(struct ingest_part *p, const struct ingest_part_id *id,
				struct err *e);

/* Makes the spool's directory if it is missing, and tries it. */
MUST_CHECK int ingest_part_prepare(const char *spool, struct err *e);

/* Appends; after a failure that is not for want of a checksum the part should be dropped. */
MUST_CHECK int ingest_part_write(struct ingest_part *p, const void *data, size_t len,
				 uint32_t crc32_data, struct err *e);

/* All is there: ERR_PEER if it is not what was announced. */
MUST_CHECK int ingest_part_check(const struct ingest_part *p, struct err *e);

void ingest_part_drop(struct ingest_part *p); /* its bytes go; still to be closed */
void ingest_part_close(struct ingest_part *p); /* any thread; what has a name stays */

/* Removes named parts: of this session, or (NULL) those that nobody touched for `age_ns`. */
void ingest_part_sweep(const char *spool, const char *session, int64_t age_ns);

#endif
