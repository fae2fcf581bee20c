/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only way from a peer's bytes to a message of protobuf-c. Unpacking allocates for every field, and an
 * empty submessage of two bytes takes a hundred times its size. So the fields are counted first, without an
 * allocation, and a message beyond its limits in proto/limits.h is refused. Pure functions, any thread.
 *
 *   rc = message_unpack(&m, &tutti__v1__upload_reply__descriptor, LIMIT_REPLY_BYTES, LIMIT_REPLY_FIELDS,
 *                       data, len, e);
 */
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"

/* ERR_LIMIT above max_bytes bytes or max_fields fields. Submessages and their fields, unknown fields and each
 * element of a repeated field count. ERR_INVALID: the bytes are no message. */
MUST_CHECK int message_check_size(const ProtobufCMessageDescriptor *type, size_t max_bytes,
				  size_t max_fields, const void *data, size_t len, struct err *e);

/* Checks the size, then unpacks. The caller frees the message with protobuf_c_message_free_unpacked(). `*out`
 * is NULL after a failure. An empty message is fine. */
MUST_CHECK int message_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *type,
			      size_t max_bytes, size_t max_fields, const void *data, size_t len,
			      struct err *e);

#endif
