/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/chunk.h"

#include <inttypes.h>
#include <zlib.h>

#include "proto/limits.h"
#include "proto/message.h"

Tutti__V1__UploadMessage *upload_message_unpack(const uint8_t *data, size_t len)
{
	ProtobufCMessage *m;

	if (message_unpack(&m, &tutti__v1__upload_message__descriptor, LIMIT_UPLOAD_MESSAGE_BYTES,
			   LIMIT_UPLOAD_FIELDS, data, len, NULL))
		return NULL;
	return (Tutti__V1__UploadMessage *)m;
}

static int check(const struct spooled_upload *p, const Tutti__V1__UploadChunk *c,
		 enum rpc_code *code, struct err *e)
{
	if (c->offset != p->received)
		return err_set(e, ERR_PEER, "chunk at offset %" PRIu64 ", expected %" PRIu64,
			       c->offset, p->received);
	if (!c->data.len || c->data.len > LIMIT_CHUNK_BYTES)
		return err_set(e, ERR_PEER, "chunk of %zu bytes, limit %d", c->data.len,
			       LIMIT_CHUNK_BYTES);
	if (c->data.len > p->bytes - p->received)
		return err_set(e, ERR_PEER, "%" PRIu64 " bytes came, %" PRIu64 " were announced",
			       p->received + c->data.len, p->bytes);
	*code = RPC_DATA_LOSS;
	if ((uint32_t)crc32_z(0, c->data.data, c->data.len) != c->crc32)
		return err_set(e, ERR_PEER,
			       "the checksum of the chunk at offset %" PRIu64 " is wrong",
			       c->offset);
	return 0;
}

int chunk_write(struct spooled_upload *p, const uint8_t *message, size_t len, enum rpc_code *code,
		struct err *e)
{
	Tutti__V1__UploadMessage *m = upload_message_unpack(message, len);
	const Tutti__V1__UploadChunk *c = NULL;
	int rc;

	*code = RPC_INVALID_ARGUMENT;
	if (m && m->kind_case == TUTTI__V1__UPLOAD_MESSAGE__KIND_CHUNK)
		c = m->chunk;
	rc = c ? check(p, c, code, e)
	       : err_set(e, ERR_PEER, "not an UploadChunk at offset %" PRIu64, p->received);
	if (!rc) {
		*code = RPC_RESOURCE_EXHAUSTED;
		rc = spooled_upload_write(p, c->data.data, c->data.len, c->crc32, e);
		if (rc)
			spooled_upload_drop(p);
	}
	if (m)
		tutti__v1__upload_message__free_unpacked(m, NULL);
	return rc;
}
