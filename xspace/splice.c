/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/splice.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define STAGE_BYTES (64 << 10)

/* Longer runs in memory go to the sink without a copy. */
#define DIRECT_BYTES (8 << 10)

struct splice splice_varint(const struct wire_field *field, const struct wire_field *message,
			    uint32_t number, uint64_t v)
{
	struct splice s = { .at = message->body, .until = message->body };

	if (field->end) {
		s.at = field->body;
		s.until = field->end;
	} else {
		s.own[s.len++] = WIRE_TAG(number, WIRE_VARINT);
	}
	s.len += varint_put(s.own + s.len, v);
	return s;
}

struct splice splice_head(const struct wire_field *message, uint64_t len)
{
	struct splice s = { .at = message->at, .until = message->body };

	s.own[s.len++] = WIRE_TAG(message->number, WIRE_LEN);
	s.len += varint_put(s.own + s.len, len);
	return s;
}

void splicer_open(struct splicer *sp, const struct xs_source *src, const struct xs_sink *out)
{
	*sp = (struct splicer){ .src = src, .out = out, .stage = xmalloc(STAGE_BYTES) };
}

void splicer_close(struct splicer *sp)
{
	free(sp->stage);
	sp->stage = NULL;
}

int splicer_flush(struct splicer *sp, struct err *e)
{
	size_t len = sp->staged;

	sp->staged = 0;
	return len ? sp->out->write(sp->out->arg, sp->stage, len, e) : 0;
}

int splicer_add(struct splicer *sp, const void *data, size_t len, struct err *e)
{
	int rc = 0;

	if (len > DIRECT_BYTES || len > STAGE_BYTES - sp->staged)
		rc = splicer_flush(sp, e);
	if (rc)
		return rc;
	sp->written += len;
	if (len > DIRECT_BYTES)
		return sp->out->write(sp->out->arg, data, len, e);
	if (len)
		memcpy(sp->stage + sp->staged, data, len);
	sp->staged += len;
	return 0;
}

static int copy_windowed(struct splicer *sp, uint64_t until, struct err *e)
{
	int rc = 0;

	while (!rc && sp->from < until) {
		size_t space = STAGE_BYTES - sp->staged;
		uint64_t left = until - sp->from;
		size_t n = left < space ? (size_t)left : space;

		if (n)
			rc = sp->src->read(sp->src->arg, sp->from, sp->stage + sp->staged, n, e);
		if (rc)
			break;
		sp->staged += n;
		sp->written += n;
		sp->from += n;
		if (sp->staged == STAGE_BYTES)
			rc = splicer_flush(sp, e);
	}
	return rc;
}

int splicer_copy(struct splicer *sp, uint64_t until, struct err *e)
{
	uint64_t from = sp->from;

	if (until < from || until > sp->src->size)
		return err_set(e, ERR_INVALID, "at byte %" PRIu64 ": the input changed", until);
	if (!sp->src->memory)
		return copy_windowed(sp, until, e);
	sp->from = until;
	return splicer_add(sp, sp->src->memory + from, (size_t)(until - from), e);
}

int splicer_cut(struct splicer *sp, uint64_t at, uint64_t until, struct err *e)
{
	int rc = splicer_copy(sp, at, e);

	sp->from = until;
	return rc;
}

int splicer_put(struct splicer *sp, const struct splice *s, struct err *e)
{
	int rc = splicer_cut(sp, s->at, s->until, e);

	return rc ? rc : splicer_add(sp, s->bytes ? s->bytes : s->own, s->len, e);
}
