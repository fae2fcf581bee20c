/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

#define DEPTH_MAX 16 /* levels of submessages; the deepest message of proto/ has 5 */
#define FIELD_MAX ((1U << 29) - 1)

enum wire { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

struct walk {
	const uint8_t *at, *end;
};

static bool read_varint(struct walk *w, uint64_t *out)
{
	*out = 0;
	for (unsigned int shift = 0; shift < 70 && w->at < w->end; shift += 7) {
		uint8_t byte = *w->at++;

		*out |= (uint64_t)(byte & 0x7f) << (shift < 64 ? shift : 63);
		if (byte < 0x80)
			return true;
	}
	return false;
}

static bool skip(struct walk *w, uint64_t n)
{
	if (n > (uint64_t)(w->end - w->at))
		return false;
	w->at += n;
	return true;
}

/* Elements of a packed field. */
static size_t count_packed(ProtobufCType type, const uint8_t *data, size_t len)
{
	size_t n = 0;

	switch (type) {
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return len / 4;
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return len / 8;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return 0;
	default:
		for (size_t i = 0; i < len; i++)
			n += data[i] < 0x80;
		return n;
	}
}

static bool count_fields(const ProtobufCMessageDescriptor *type, struct walk w, int depth,
			 size_t max_fields, size_t *n);

/* Counts the contents of a length-delimited field: the elements of a packed field, or the fields of a
 * submessage. False: malformed. */
static bool count_below(const ProtobufCFieldDescriptor *field, struct walk below, int depth,
			size_t max_fields, size_t *n)
{
	if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
		return depth < DEPTH_MAX &&
		       count_fields(field->descriptor, below, depth + 1, max_fields, n);
	if (field && field->label == PROTOBUF_C_LABEL_REPEATED)
		*n += count_packed(field->type, below.at, (size_t)(below.end - below.at));
	return true;
}

/* Adds to `n`; stops when it is above max_fields. False: malformed. */
static bool count_fields(const ProtobufCMessageDescriptor *type, struct walk w, int depth,
			 size_t max_fields, size_t *n)
{
	while (w.at < w.end && *n <= max_fields) {
		struct walk below;
		uint64_t tag, value;

		if (!read_varint(&w, &tag) || !(tag >> 3) || tag >> 3 > FIELD_MAX)
			return false;
		++*n;
		switch (tag & 7) {
		case WIRE_VARINT:
			if (!read_varint(&w, &value))
				return false;
			break;
		case WIRE_64BIT:
			if (!skip(&w, 8))
				return false;
			break;
		case WIRE_32BIT:
			if (!skip(&w, 4))
				return false;
			break;
		case WIRE_BYTES:
			if (!read_varint(&w, &value))
				return false;
			below.at = w.at;
			if (!skip(&w, value))
				return false;
			below.end = w.at;
			if (!count_below(protobuf_c_message_descriptor_get_field(
						 type, (unsigned int)(tag >> 3)),
					 below, depth, max_fields, n))
				return false;
			break;
		default:
			return false;
		}
	}
	return true;
}

int message_check_size(const ProtobufCMessageDescriptor *type, size_t max_bytes, size_t max_fields,
		       const void *data, size_t len, struct err *e)
{
	struct walk w = { data, (const uint8_t *)data + len };
	size_t n = 0;

	if (len > max_bytes)
		return err_set(e, ERR_LIMIT, "%s of %zu bytes, limit %zu", type->short_name, len,
			       max_bytes);
	if (len && !count_fields(type, w, 0, max_fields, &n))
		return err_set(e, ERR_INVALID, "%zu bytes are no %s", len, type->short_name);
	if (n > max_fields)
		return err_set(e, ERR_LIMIT, "%s with more than %zu fields", type->short_name,
			       max_fields);
	return 0;
}

int message_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *type, size_t max_bytes,
		   size_t max_fields, const void *data, size_t len, struct err *e)
{
	int rc = message_check_size(type, max_bytes, max_fields, data, len, e);

	*out = NULL;
	if (rc)
		return rc;
	*out = protobuf_c_message_unpack(type, NULL, len, data);
	return *out ? 0 : err_set(e, ERR_INVALID, "%zu bytes are no %s", len, type->short_name);
}
