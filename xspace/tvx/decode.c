/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/tvx/decode.h"

#include <string.h>

#include "base/reader.h"
#include "xspace/wire.h"

/* Drops the top bit of each of 8 bytes and moves the rest together: the value of a varint in a word. */
static inline uint64_t join_sevens(uint64_t v)
{
	v = (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x7f007f007f007f00)) >> 1;
	v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x3fff00003fff0000)) >> 2;
	return (v & UINT64_C(0x000000000fffffff)) | (v & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* As reader_varint(), without a loop where 8 bytes can be loaded and the varint ends among them. */
static inline bool read_varint(struct reader *r, uint64_t *out)
{
	uint64_t word, ends;

	if (r->p < r->end && *r->p < 0x80) {
		*out = *r->p++;
		return true;
	}
	if (reader_left(r) < sizeof(word))
		return reader_varint(r, out);
	memcpy(&word, r->p, sizeof(word));
	ends = ~word & UINT64_C(0x8080808080808080);
	if (!ends)
		return reader_varint(r, out);
	*out = join_sevens(word & (ends ^ (ends - 1)));
	r->p += __builtin_ctzll(ends) / 8 + 1;
	return true;
}

/* The next field's number and, unless it is bytes, its value; of bytes *r stands on them and *value is their length. */
static inline bool next_field(struct reader *r, uint32_t *number, uint32_t *type, uint64_t *value)
{
	uint64_t tag;

	if (!read_varint(r, &tag) || !(tag >> 3) || tag > UINT32_MAX)
		return false;
	*number = (uint32_t)(tag >> 3);
	*type = tag & 7;
	switch (*type) {
	case WIRE_VARINT:
		return read_varint(r, value);
	case WIRE_I64:
		return reader_le(r, 8, value);
	case WIRE_I32:
		return reader_le(r, 4, value);
	case WIRE_LEN:
		return read_varint(r, value) && *value <= reader_left(r);
	default:
		return false;
	}
}

/* A number as a double: the value of a counter's sample. */
static uint64_t double_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* A stat begins with its id, as writers leave it: whether it is surely another one. */
static inline bool is_other_stat(struct reader r, const struct event_wants *wants)
{
	uint64_t id;

	if (wants->is_counter || r.p == r.end || *r.p++ != WIRE_TAG(XSTAT_METADATA_ID, WIRE_VARINT))
		return false;
	return read_varint(&r, &id) && (int64_t)id != wants->stat;
}

static bool read_stat(struct reader r, const struct event_wants *wants, struct raw_event *out)
{
	uint64_t value, extra = 0;
	uint32_t number, type;
	int64_t id = 0;
	bool is_number = false;

	while (reader_left(&r)) {
		if (!next_field(&r, &number, &type, &value))
			return false;
		if (type == WIRE_LEN)
			r.p += value;
		if (number == XSTAT_METADATA_ID && type == WIRE_VARINT)
			id = (int64_t)value;
		if (number < XSTAT_DOUBLE || number > XSTAT_INT || type == WIRE_LEN)
			continue;
		is_number = true;
		extra = value;
		if (wants->is_counter && number == XSTAT_UINT)
			extra = double_bits((double)value);
		if (wants->is_counter && number == XSTAT_INT)
			extra = double_bits((double)(int64_t)value);
	}
	if (is_number && (wants->is_counter || id == wants->stat))
		out->extra = extra;
	return true;
}

/* The stat of `len` bytes, which are there. */
static bool take_stat(struct reader *r, uint64_t len, const struct event_wants *wants,
		      struct raw_event *out)
{
	const struct reader stat = { r->p, r->p + len };

	r->p += len;
	if ((!wants->is_counter && !wants->stat) || is_other_stat(stat, wants))
		return true;
	return read_stat(stat, wants, out);
}

static void set_number(struct raw_event *out, uint32_t number, uint64_t value)
{
	if (number == XEVENT_METADATA_ID)
		out->metadata_id = (int64_t)value;
	if (number == XEVENT_DURATION_PS)
		out->duration_ps = (int64_t)value;
	if (number != XEVENT_OFFSET_PS && number != XEVENT_NUM_OCCURRENCES)
		return;
	out->is_aggregate = number == XEVENT_NUM_OCCURRENCES;
	out->offset_ps = out->is_aggregate ? 0 : (int64_t)value;
}

/* A field that is unknown, or whose tag has more bytes than it needs. */
static bool take_field(struct reader *r, const struct event_wants *wants, struct raw_event *out)
{
	uint32_t number, type;
	uint64_t value;

	if (!next_field(r, &number, &type, &value) || !wire_type_fits(schema_xevent, number, type))
		return false;
	if (number == XEVENT_STATS)
		return take_stat(r, value, wants, out);
	if (type == WIRE_LEN)
		r->p += value;
	set_number(out, number, value);
	return true;
}

bool event_decode(const uint8_t *data, size_t len, const struct event_wants *wants,
		  struct raw_event *out)
{
	struct reader r = reader_of(data, len);
	uint64_t value;

	*out = (struct raw_event){ 0 };
	while (reader_left(&r)) {
		bool ok = true;

		switch (*r.p++) {
		case WIRE_TAG(XEVENT_METADATA_ID, WIRE_VARINT):
			ok = read_varint(&r, &value);
			out->metadata_id = ok ? (int64_t)value : 0;
			break;
		case WIRE_TAG(XEVENT_OFFSET_PS, WIRE_VARINT):
			ok = read_varint(&r, &value);
			out->offset_ps = ok ? (int64_t)value : 0;
			out->is_aggregate = false;
			break;
		case WIRE_TAG(XEVENT_DURATION_PS, WIRE_VARINT):
			ok = read_varint(&r, &value);
			out->duration_ps = ok ? (int64_t)value : 0;
			break;
		case WIRE_TAG(XEVENT_NUM_OCCURRENCES, WIRE_VARINT):
			ok = read_varint(&r, &value);
			out->offset_ps = 0;
			out->is_aggregate = true;
			break;
		case WIRE_TAG(XEVENT_STATS, WIRE_LEN):
			ok = read_varint(&r, &value) && value <= reader_left(&r) &&
			     take_stat(&r, value, wants, out);
			break;
		default:
			r.p--;
			ok = take_field(&r, wants, out);
		}
		if (!ok)
			return false;
	}
	return true;
}
