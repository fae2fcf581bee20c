/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an upload that have arrived, in a file of the spool. The file of an upload that may be resumed
 * has a name made of session, host, length and checksum: an agent that uploads the same bytes again continues
 * where the file ends, also after a restart of the aggregator. Any other upload has a file without a name, which
 * vanishes when it is closed. An upload of one chunk stays in memory. Blocks: for workers, one at a time.
 */
#ifndef AGGREGATOR_INGEST_SPOOLED_UPLOAD_H
#define AGGREGATOR_INGEST_SPOOLED_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct spooled_upload {
	char *path; /* NULL: the file has no name */
	int fd; /* -1: not open, or all is in memory */
	const char *spool; /* borrowed */
	uint8_t *memory; /* the whole upload, or NULL */
	uint64_t bytes; /* of the whole upload */
	uint32_t crc32; /* of the whole upload; used only with a name */
	uint64_t reserved; /* bytes from the start of the upload that have space on the disk */
	uint64_t received; /* bytes from the start of the upload that have arrived */
	uint32_t crc32_received; /* of the received bytes */
};

/* Borrowed for the call. */
struct spooled_upload_id {
	const char *spool, *session, *host;
	uint64_t bytes;
	bool resume;
	uint32_t crc32;
};

/* Opens the file and reads the bytes that an earlier upload left in it; ERR_FULL if the disk has no space for the
 * rest. Space is reserved as bytes arrive, 16 MiB at once. On failure no descriptor is left open. */
MUST_CHECK int spooled_upload_open(struct spooled_upload *p, const struct spooled_upload_id *id,
				   struct err *e);

/* Makes the spool directory if it is missing, and tests that files can be written there. */
MUST_CHECK int spooled_upload_prepare(const char *spool, struct err *e);

/* Appends bytes. After a failure the caller drops the upload. */
MUST_CHECK int spooled_upload_write(struct spooled_upload *p, const void *data, size_t len,
				    uint32_t crc32_data, struct err *e);

/* ERR_PEER unless all announced bytes have arrived and match the checksum. */
MUST_CHECK int spooled_upload_check(const struct spooled_upload *p, struct err *e);

void spooled_upload_drop(struct spooled_upload *p); /* removes its bytes; still to be closed */
void spooled_upload_close(struct spooled_upload *p); /* any thread; a file with a name stays */

/* Removes files that have a name: those of this session or, if it is NULL, those unchanged for `age_ns`. */
void spooled_upload_sweep(const char *spool, const char *session, int64_t age_ns);

#endif
