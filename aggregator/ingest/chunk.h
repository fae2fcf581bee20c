/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of an upload: unpacks them, and appends the data of a chunk to the spool. Private to ingest/. */
#ifndef AGGREGATOR_INGEST_CHUNK_H
#define AGGREGATOR_INGEST_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "aggregator/ingest/spooled_upload.h"
#include "base/err.h"
#include "net/rpc.h"
#include "proto/tutti/v1/ingest.pb-c.h"

/* NULL if the bytes are malformed or beyond a limit. The caller frees the message with
 * tutti__v1__upload_message__free_unpacked(). Any thread. */
Tutti__V1__UploadMessage *upload_message_unpack(const uint8_t *data, size_t len);

/*
 * Unpacks an UploadChunk and appends its data. The chunk must follow the bytes that have arrived, stay within the
 * announced ones, and match its checksum. After a failure `*code` is the status for the agent. A write that
 * fails also drops the upload, which frees its space for others. Blocks: for workers.
 */
MUST_CHECK int chunk_write(struct spooled_upload *p, const uint8_t *message, size_t len,
			   enum rpc_code *code, struct err *e);

#endif
