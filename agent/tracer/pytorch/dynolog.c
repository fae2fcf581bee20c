/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/dynolog.h"

#include <inttypes.h>
#include <string.h>

#define TYPE_BYTES	32
#define HEAD_BYTES	(8 + TYPE_BYTES)
#define CONTEXT_BYTES	16
#define REQUEST_BYTES	16 /* before the pids */
#define PIDS_MAX	64 /* PyTorch sends 11 at most */
#define WHAT_ACTIVITIES 2

static const char *const types[] = { [DYNOLOG_CONTEXT] = "ctxt", [DYNOLOG_REQUEST] = "req" };

static int32_t get_int32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int64_t get_int64(const uint8_t *p)
{
	int64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int parse_context(const uint8_t *p, size_t len, struct dynolog_message *out, struct err *e)
{
	if (len != CONTEXT_BYTES)
		return err_set(e, ERR_INVALID, "a context of %zu bytes instead of %d", len,
			       CONTEXT_BYTES);
	out->pid = get_int32(p + 4);
	out->job = get_int64(p + 8);
	return 0;
}

static int parse_request(const uint8_t *p, size_t len, struct dynolog_message *out, struct err *e)
{
	int32_t n;

	if (len < REQUEST_BYTES)
		return err_set(e, ERR_INVALID, "a request of %zu bytes", len);
	n = get_int32(p + 4);
	if (n < 1 || n > PIDS_MAX || len != REQUEST_BYTES + 4 * (size_t)n)
		return err_set(e, ERR_INVALID, "a request of %zu bytes with %" PRId32 " processes",
			       len, n);
	out->can_record = get_int32(p) & WHAT_ACTIVITIES;
	out->job = get_int64(p + 8);
	out->pid = get_int32(p + REQUEST_BYTES);
	return 0;
}

int dynolog_parse(const void *data, size_t len, struct dynolog_message *out, struct err *e)
{
	const uint8_t *p = data;
	const char *type = (const char *)p + 8;
	int rc;

	*out = (struct dynolog_message){ 0 };
	if (len < HEAD_BYTES)
		return err_set(e, ERR_INVALID, "a datagram of %zu bytes, less than its head", len);
	if ((uint64_t)get_int64(p) != len - HEAD_BYTES)
		return err_set(e, ERR_INVALID, "a payload of %zu bytes, announced as %" PRIu64,
			       len - HEAD_BYTES, (uint64_t)get_int64(p));
	if (!strncmp(type, types[DYNOLOG_CONTEXT], TYPE_BYTES)) {
		out->type = DYNOLOG_CONTEXT;
		rc = parse_context(p + HEAD_BYTES, len - HEAD_BYTES, out, e);
	} else if (!strncmp(type, types[DYNOLOG_REQUEST], TYPE_BYTES)) {
		out->type = DYNOLOG_REQUEST;
		rc = parse_request(p + HEAD_BYTES, len - HEAD_BYTES, out, e);
	} else {
		rc = err_set(e, ERR_INVALID, "an unknown type of datagram");
	}
	if (!rc && out->pid < 1)
		return err_set(e, ERR_INVALID, "process %" PRId32, out->pid);
	return rc;
}

void dynolog_reply(enum dynolog_type type, const char *config, struct buf *out)
{
	static const int32_t one = 1;
	const void *payload = type == DYNOLOG_CONTEXT ? (const void *)&one : config;
	uint64_t size = type == DYNOLOG_CONTEXT ? sizeof(one) : strlen(config);
	char name[TYPE_BYTES] = { 0 };

	memcpy(name, types[type], strlen(types[type]));
	buf_reset(out);
	buf_add(out, &size, sizeof(size));
	buf_add(out, name, sizeof(name));
	buf_add(out, payload, size);
}
