/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One buffer holds everything. Opening a message reserves one byte for its length; closing it moves
 * its bytes up if the length needs more. That keeps lengths minimal, which all readers accept.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/text.h"
#include "xspace/wire.h"

#define uthash_malloc(size) xmalloc(size)
#include <uthash.h>

/* Bytes that malloc() and the hash table need for each name, besides its text. */
#define NAME_OVERHEAD 64

/* The innermost message that is open. A stat is closed before anything else is added to the buffer. */
enum depth { IN_SPACE, IN_PLANE, IN_LINE, IN_EVENT, IN_STAT, DEPTHS };

struct name {
	char *text;
	int64_t id;
	UT_hash_handle hh;
};

/* The names of one metadata map of the open plane, in order of their ids: 1, 2, ... */
struct names {
	struct name *all;
	const struct name *last, *before; /* the two that were asked for last; NULL = none */
};

struct xs_builder {
	struct buf out;
	struct buf texts; /* errors, warnings, hostnames, which follow the planes */
	struct buf scratch;
	enum depth depth;
	size_t open_at[DEPTHS]; /* offset of the length byte of the open message */
	struct names events, stats;
	size_t name_bytes; /* allocated for both */
};

struct xs_builder *xs_builder_new(void)
{
	return xcalloc(1, sizeof(struct xs_builder));
}

static void names_free(struct names *names)
{
	struct name *n, *next;

	HASH_ITER (hh, names->all, n, next) {
		HASH_DEL(names->all, n);
		free(n->text);
		free(n);
	}
	names->last = names->before = NULL;
}

void xs_builder_free(struct xs_builder *b)
{
	if (!b)
		return;
	names_free(&b->events);
	names_free(&b->stats);
	buf_release(&b->out);
	buf_release(&b->texts);
	buf_release(&b->scratch);
	free(b);
}

size_t xs_builder_bytes(const struct xs_builder *b)
{
	return b->out.len + b->texts.len + b->name_bytes;
}

size_t xs_event_names(const struct xs_builder *b)
{
	return HASH_COUNT(b->events.all);
}

static void remember(struct names *names, const struct name *n)
{
	names->before = names->last;
	names->last = n;
}

static struct name *find_name(struct xs_builder *b, const struct names *names, const char *text,
			      const char **clean, size_t *len)
{
	struct name *n;

	*len = strlen(text);
	*clean = text_clean(text, *len, &b->scratch);
	HASH_FIND(hh, names->all, *clean, *len, n);
	return n;
}

bool xs_has_event_name(struct xs_builder *b, const char *name)
{
	const char *clean;
	size_t len;

	return find_name(b, &b->events, name, &clean, &len);
}

/* Most planes ask for the same name, or the same two, many times in a row. */
static int64_t intern(struct xs_builder *b, struct names *names, const char *text)
{
	const char *clean;
	struct name *n;
	size_t len;

	if (names->last && !strcmp(names->last->text, text))
		return names->last->id;
	if (names->before && !strcmp(names->before->text, text)) {
		remember(names, names->before);
		return names->last->id;
	}
	n = find_name(b, names, text, &clean, &len);
	if (!n) {
		n = xmalloc(sizeof(*n));
		n->text = xstrdup(clean);
		n->id = (int64_t)HASH_COUNT(names->all) + 1;
		HASH_ADD_KEYPTR(hh, names->all, n->text, len, n);
		b->name_bytes += sizeof(*n) + len + NAME_OVERHEAD;
	}
	remember(names, n);
	return n->id;
}

static void put_int(struct buf *out, unsigned int field, uint64_t v)
{
	buf_add_u8(out, WIRE_TAG(field, WIRE_VARINT));
	buf_add_varint(out, v);
}

static void put_bytes(struct buf *out, unsigned int field, const void *v, size_t len)
{
	buf_add_u8(out, WIRE_TAG(field, WIRE_LEN));
	buf_add_varint(out, len);
	buf_add(out, v, len);
}

static void put_text(struct xs_builder *b, struct buf *out, unsigned int field, const char *text)
{
	size_t len = strlen(text);

	put_bytes(out, field, text_clean(text, len, &b->scratch), len);
}

static void open_message(struct xs_builder *b, enum depth depth, unsigned int field)
{
	buf_add_u8(&b->out, WIRE_TAG(field, WIRE_LEN));
	b->open_at[depth] = b->out.len;
	buf_add_u8(&b->out, 0);
	b->depth = depth;
}

/* Puts the length in front of what was added since open_message(). */
static void close_message(struct buf *out, size_t at)
{
	size_t len = out->len - at - 1;
	size_t more = varint_size(len) - 1;

	if (more) {
		buf_reserve(out, more);
		memmove(out->data + at + 1 + more, out->data + at + 1, len + 1);
		out->len += more;
	}
	varint_put(out->data + at, len);
}

static void put_metadata(struct xs_builder *b, unsigned int field, struct names *names)
{
	const struct name *n;

	for (n = names->all; n; n = n->hh.next) {
		size_t len = strlen(n->text);
		size_t id = varint_size((uint64_t)n->id);
		size_t value = 1 + id + 1 + varint_size(len) + len;

		buf_add_u8(&b->out, WIRE_TAG(field, WIRE_LEN));
		buf_add_varint(&b->out, 1 + id + 1 + varint_size(value) + value);
		put_int(&b->out, ENTRY_KEY, (uint64_t)n->id);
		buf_add_u8(&b->out, WIRE_TAG(ENTRY_VALUE, WIRE_LEN));
		buf_add_varint(&b->out, value);
		put_int(&b->out, METADATA_ID, (uint64_t)n->id);
		put_bytes(&b->out, METADATA_NAME, n->text, len);
	}
	names_free(names);
}

static void close_to(struct xs_builder *b, enum depth depth)
{
	for (; b->depth > depth; b->depth--) {
		if (b->depth == IN_PLANE) {
			put_metadata(b, XPLANE_EVENT_METADATA, &b->events);
			put_metadata(b, XPLANE_STAT_METADATA, &b->stats);
			b->name_bytes = 0;
		}
		close_message(&b->out, b->open_at[b->depth]);
	}
}

void xs_plane(struct xs_builder *b, int64_t id, const char *name)
{
	close_to(b, IN_SPACE);
	open_message(b, IN_PLANE, XSPACE_PLANES);
	if (id)
		put_int(&b->out, XPLANE_ID, (uint64_t)id);
	put_text(b, &b->out, XPLANE_NAME, name);
}

void xs_line(struct xs_builder *b, int64_t id, const char *name, int64_t timestamp_ns)
{
	assert(b->depth >= IN_PLANE);
	close_to(b, IN_PLANE);
	open_message(b, IN_LINE, XPLANE_LINES);
	if (id)
		put_int(&b->out, XLINE_ID, (uint64_t)id);
	put_text(b, &b->out, XLINE_NAME, name);
	if (timestamp_ns)
		put_int(&b->out, XLINE_TIMESTAMP_NS, (uint64_t)timestamp_ns);
}

/* Most bytes of a small message: tag, length, and three fields of a number each. */
#define SMALL_BYTES (2 + 3 * 11)

/* A small message is written where it stays: a builder adds millions. The room is reserved; small_end() adds it. */
static uint8_t *small_begin(struct xs_builder *b)
{
	buf_reserve(&b->out, SMALL_BYTES);
	return b->out.data + b->out.len;
}

static uint8_t *small_put(uint8_t *at, unsigned int field, uint64_t v)
{
	*at++ = WIRE_TAG(field, WIRE_VARINT);
	return at + varint_put(at, v);
}

static void small_end(struct xs_builder *b, uint8_t *at)
{
	*at = 0;
	b->out.len = (size_t)(at - b->out.data);
}

void xs_event(struct xs_builder *b, const char *name, int64_t offset_ps, int64_t duration_ps)
{
	int64_t id = intern(b, &b->events, name);
	uint8_t *at;

	assert(b->depth >= IN_LINE);
	close_to(b, IN_LINE);
	at = small_begin(b);
	*at++ = WIRE_TAG(XLINE_EVENTS, WIRE_LEN);
	b->open_at[IN_EVENT] = (size_t)(at++ -
					b->out.data); /* of the length, which close_to() writes */
	b->depth = IN_EVENT;
	at = small_put(at, XEVENT_METADATA_ID, (uint64_t)id);
	/* written even if it is 0, since it is in a oneof */
	at = small_put(at, XEVENT_OFFSET_PS, (uint64_t)offset_ps);
	if (duration_ps)
		at = small_put(at, XEVENT_DURATION_PS, (uint64_t)duration_ps);
	small_end(b, at);
}

/* Opens a stat of the event or the plane; the caller closes it with close_to(). */
static enum depth open_stat(struct xs_builder *b, const char *name)
{
	enum depth owner = b->depth;
	int64_t id = intern(b, &b->stats, name);

	assert(owner == IN_PLANE || owner == IN_EVENT);
	open_message(b, IN_STAT, owner == IN_PLANE ? XPLANE_STATS : XEVENT_STATS);
	put_int(&b->out, XSTAT_METADATA_ID, (uint64_t)id);
	return owner;
}

static void close_stat(struct xs_builder *b, enum depth owner)
{
	close_message(&b->out, b->open_at[IN_STAT]);
	b->depth = owner;
}

/* A tag and a length of one byte each, then the stat. */
static void put_int_stat(struct xs_builder *b, const char *name, unsigned int field, uint64_t v)
{
	unsigned int stat = b->depth == IN_PLANE ? XPLANE_STATS : XEVENT_STATS;
	int64_t id = intern(b, &b->stats, name);
	uint8_t *head = small_begin(b), *at = head + 2;

	assert(b->depth == IN_PLANE || b->depth == IN_EVENT);
	at = small_put(at, XSTAT_METADATA_ID, (uint64_t)id);
	at = small_put(at, field, v);
	head[0] = WIRE_TAG(stat, WIRE_LEN);
	head[1] = (uint8_t)(at - head - 2);
	small_end(b, at);
}

void xs_stat_int(struct xs_builder *b, const char *name, int64_t v)
{
	put_int_stat(b, name, XSTAT_INT, (uint64_t)v);
}

void xs_stat_uint(struct xs_builder *b, const char *name, uint64_t v)
{
	put_int_stat(b, name, XSTAT_UINT, v);
}

void xs_stat_str(struct xs_builder *b, const char *name, const char *v)
{
	put_int_stat(b, name, XSTAT_REF, (uint64_t)intern(b, &b->stats, v));
}

void xs_stat_double(struct xs_builder *b, const char *name, double v)
{
	enum depth owner;
	uint64_t bits;

	if (!isfinite(v))
		return;
	owner = open_stat(b, name);
	memcpy(&bits, &v, sizeof(bits));
	buf_add_u8(&b->out, WIRE_TAG(XSTAT_DOUBLE, WIRE_I64));
	for (int i = 0; i < 8; i++)
		buf_add_u8(&b->out, (uint8_t)(bits >> (8 * i)));
	close_stat(b, owner);
}

void xs_stat_bytes(struct xs_builder *b, const char *name, const void *v, size_t len)
{
	enum depth owner = open_stat(b, name);

	put_bytes(&b->out, XSTAT_BYTES, v, len);
	close_stat(b, owner);
}

void xs_hostname(struct xs_builder *b, const char *name)
{
	put_text(b, &b->texts, XSPACE_HOSTNAMES, name);
}

void xs_warning(struct xs_builder *b, const char *text)
{
	put_text(b, &b->texts, XSPACE_WARNINGS, text);
}

void xs_error(struct xs_builder *b, const char *text)
{
	put_text(b, &b->texts, XSPACE_ERRORS, text);
}

void xs_finish(struct xs_builder *b, struct buf *out)
{
	close_to(b, IN_SPACE);
	buf_add(&b->out, b->texts.data, b->texts.len);
	if (out->len) {
		buf_add(out, b->out.data, b->out.len);
	} else {
		buf_release(out);
		*out = b->out;
		b->out = (struct buf)BUF_INIT;
	}
	buf_release(&b->out);
	buf_reset(&b->texts);
}
