/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upload on its way in: a growing file of the spool. One that may be resumed has a name made of session,
 * host, length and checksum, so that an agent that uploads the same bytes again goes on from what is there,
 * also after a restart of the aggregator. Another has no name and vanishes with its descriptor. An upload of
 * one chunk stays in memory. Blocks: for workers, one at a time.
 */
#ifndef AGGREGATOR_INGEST_PART_H
#define AGGREGATOR_INGEST_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ingest_part {
	char *path; /* NULL: it has no name */
	int fd; /* -1: not open, or all is in memory */
	const char *spool; /* borrowed */
	uint8_t *memory; /* the whole upload, or NULL */
	uint64_t bytes; /* of the whole upload */
	uint32_t crc32; /* of the whole upload; used only with a name */
	uint64_t received; /* bytes, from the start on */
	uint32_t crc32_received; /* of these */
};

/* Borrowed for the call. */
struct ingest_part_id {
	const char *spool, *session, *host;
	uint64_t bytes;
	bool resume;
	uint32_t crc32;
};

/* Reads what is there and reserves space for the rest: ERR_FULL if there is none. On failure nothing is left
 * open. */
MUST_CHECK int ingest_part_open(struct ingest_part *p, const struct ingest_part_id *id,
				struct err *e);

/* Makes the spool directory if it is missing, and tests it. */
MUST_CHECK int ingest_part_prepare(const char *spool, struct err *e);

/* Appends. After a failure the caller drops the part. */
MUST_CHECK int ingest_part_write(struct ingest_part *p, const void *data, size_t len,
				 uint32_t crc32_data, struct err *e);

/* ERR_PEER unless all announced bytes are there and match the checksum. */
MUST_CHECK int ingest_part_check(const struct ingest_part *p, struct err *e);

void ingest_part_drop(struct ingest_part *p); /* removes its bytes; still to be closed */
void ingest_part_close(struct ingest_part *p); /* any thread; a file with a name stays */

/* Removes named parts: of this session, or (NULL) those that were not changed for `age_ns`. */
void ingest_part_sweep(const char *spool, const char *session, int64_t age_ns);

#endif
