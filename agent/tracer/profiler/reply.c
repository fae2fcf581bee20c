/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "agent/tracer/profiler/reply.h"

enum { FIELD_EMPTY_TRACE = 7, FIELD_XSPACE = 8 };

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* What the next byte is a part of. */
enum state { AT_TAG, AT_VALUE, AT_LENGTH, IN_PAYLOAD };

struct profiler_reply profiler_reply_of(int (*xspace)(void *arg, const void *data, size_t len,
						      struct err *e),
					void *arg)
{
	return (struct profiler_reply){ .xspace = xspace, .arg = arg };
}

static int reply_invalid(const struct profiler_reply *r, const char *what, struct err *e)
{
	return err_set(e, ERR_INVALID, "profile reply: %s at offset %" PRIu64, what, r->offset);
}

/* 1: the varint is complete and in r->value; 0: it continues; negative: it is malformed. */
static int reply_varint(struct profiler_reply *r, uint8_t byte, struct err *e)
{
	if (r->shift == 0)
		r->value = 0;
	if (r->shift >= 70)
		return reply_invalid(r, "number of more than 10 bytes", e);
	r->value |= r->shift < 64 ? (uint64_t)(byte & 0x7f) << r->shift : 0;
	r->shift += 7;
	if (byte & 0x80)
		return 0;
	r->shift = 0;
	return 1;
}

static void reply_payload(struct profiler_reply *r, uint64_t len)
{
	r->left = len;
	r->state = len ? IN_PAYLOAD : AT_TAG;
}

static int reply_tag(struct profiler_reply *r, struct err *e)
{
	if (r->value >> 32 || r->value < 8)
		return reply_invalid(r, "impossible field number", e);
	r->field = (uint32_t)(r->value >> 3);
	if (r->field == FIELD_XSPACE && (r->value & 7) != WIRE_BYTES)
		return reply_invalid(r, "XSpace of an unexpected wire type", e);
	switch ((enum wire)(r->value & 7)) {
	case WIRE_VARINT:
		r->state = AT_VALUE;
		return 0;
	case WIRE_BYTES:
		r->state = AT_LENGTH;
		return 0;
	case WIRE_FIXED64:
	case WIRE_FIXED32:
		reply_payload(r, (r->value & 7) == WIRE_FIXED64 ? 8 : 4);
		return 0;
	}
	return reply_invalid(r, "unexpected wire type", e);
}

/* Handles a complete number: a tag, a value or a length, by the state. */
static int reply_number(struct profiler_reply *r, struct err *e)
{
	switch ((enum state)r->state) {
	case AT_TAG:
		return reply_tag(r, e);
	case AT_VALUE:
		if (r->field == FIELD_EMPTY_TRACE)
			r->empty_trace = r->value != 0;
		r->state = AT_TAG;
		return 0;
	case AT_LENGTH:
		if (r->field == FIELD_XSPACE)
			r->has_xspace = true;
		reply_payload(r, r->value);
		return 0;
	case IN_PAYLOAD:
		break;
	}
	return 0;
}

static int reply_take(struct profiler_reply *r, const uint8_t *p, size_t n, struct err *e)
{
	if (r->field == FIELD_XSPACE) {
		int rc = r->xspace(r->arg, p, n, e);

		if (rc < 0)
			return rc;
		r->xspace_bytes += n;
	}
	r->left -= n;
	r->offset += n;
	if (!r->left)
		r->state = AT_TAG;
	return 0;
}

int profiler_reply_feed(struct profiler_reply *r, const void *data, size_t len, struct err *e)
{
	const uint8_t *p = data;
	int rc = 0;

	while (len && rc >= 0) {
		size_t n = 1;

		if (r->state == IN_PAYLOAD) {
			n = r->left < len ? (size_t)r->left : len;
			rc = reply_take(r, p, n, e);
		} else {
			rc = reply_varint(r, *p, e);
			r->offset++;
			if (rc > 0)
				rc = reply_number(r, e);
		}
		p += n;
		len -= n;
	}
	return rc < 0 ? rc : 0;
}

int profiler_reply_end(const struct profiler_reply *r, struct err *e)
{
	if (r->state != AT_TAG || r->shift)
		return reply_invalid(r, "the message ends in the middle of a field", e);
	return 0;
}
