/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/record.h"

#include <string.h>

#define TEXTS 6

struct row {
	int64_t raw_ns;
	uint64_t len; /* of the record that follows, at a multiple of 8 */
};

const char *stamp_name(enum log_stamp stamp)
{
	static const char *const names[] = {
		[STAMP_TEXT] = "text",
		[STAMP_RUNTIME] = "runtime",
		[STAMP_JOURNAL] = "journal",
		[STAMP_READ] = "read",
	};

	return names[stamp];
}

void record_pack(struct buf *out, const struct log_record *r)
{
	const char *const texts[TEXTS] = { r->kind, r->name,	  r->namespace,
					   r->pod,  r->container, r->text };

	buf_add_u8(out, (uint8_t)r->severity);
	buf_add_u8(out, (uint8_t)r->stamp);
	for (size_t i = 0; i < TEXTS; i++)
		buf_add(out, texts[i], strlen(texts[i]) + 1);
}

struct log_record record_unpack(const void *data)
{
	const uint8_t *bytes = data;
	struct log_record r = { .severity = bytes[0], .stamp = bytes[1] };
	const char **const texts[TEXTS] = { &r.kind, &r.name,	   &r.namespace,
					    &r.pod,  &r.container, &r.text };
	const char *p = (const char *)bytes + 2;

	for (size_t i = 0; i < TEXTS; i++) {
		*texts[i] = p;
		p += strlen(p) + 1;
	}
	return r;
}

void record_row_add(struct buf *rows, int64_t raw_ns, const struct log_record *r)
{
	static const uint8_t zeros[8];
	struct row row = { .raw_ns = raw_ns };
	size_t at = rows->len;

	buf_add(rows, &row, sizeof(row));
	record_pack(rows, r);
	row.len = rows->len - at - sizeof(row);
	memcpy(rows->data + at, &row, sizeof(row));
	buf_add(rows, zeros, -row.len & 7);
}

void record_row_each(const struct buf *rows,
		     void (*fn)(void *arg, int64_t raw_ns, const void *data, size_t len), void *arg)
{
	struct row row;

	for (size_t at = 0; at < rows->len; at += sizeof(row) + ((row.len + 7) & ~UINT64_C(7))) {
		memcpy(&row, rows->data + at, sizeof(row));
		fn(arg, row.raw_ns, rows->data + at + sizeof(row), row.len);
	}
}
