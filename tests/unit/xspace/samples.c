/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/xspace/samples.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "tests/lib/check.h"

static int read_memory(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	const struct xs_source *memory = arg;

	if (offset > memory->size || len > memory->size - offset)
		return err_set(e, ERR_IO, "read of %zu bytes at %" PRIu64 " is outside", len,
			       offset);
	memcpy(out, memory->memory + offset, len);
	return 0;
}

struct xs_source windowed(const struct xs_source *memory, size_t window_bytes)
{
	return (struct xs_source){ .read = read_memory,
				   .arg = (void *)memory,
				   .size = memory->size,
				   .window_bytes = window_bytes };
}

uint64_t random_next(struct random *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state;
}

uint64_t random_below(struct random *r, uint64_t n)
{
	return (random_next(r) >> 11) % n;
}

struct random random_seeded(void)
{
	const char *text = getenv("TUTTI_SEED");
	struct random r;

	if (text)
		r.state = strtoull(text, NULL, 0);
	else
		random_bytes(&r.state, sizeof(r.state));
	r.state += !r.state;
	printf("TUTTI_SEED=%" PRIu64 "\n", r.state);
	fflush(stdout);
	return r;
}

void put_varint(struct buf *out, unsigned int field, uint64_t v)
{
	buf_add_varint(out, field << 3);
	buf_add_varint(out, v);
}

void put_bytes(struct buf *out, unsigned int field, const void *data, size_t len)
{
	buf_add_varint(out, field << 3 | 2);
	buf_add_varint(out, len);
	buf_add(out, data, len);
}

void put_message(struct buf *out, unsigned int field, const struct buf *message)
{
	put_bytes(out, field, message->data, message->len);
}

/* ---- random XSpaces ---- */

/* Fields of one message, each a run of bytes, to be written in random order. */
struct fields {
	struct buf runs[64];
	size_t n;
};

static struct buf *field_add(struct fields *f)
{
	CHECK(f->n < ARRAY_SIZE(f->runs));
	f->runs[f->n] = (struct buf)BUF_INIT;
	return &f->runs[f->n++];
}

static void unknown_add(struct random *r, struct fields *f)
{
	struct buf *out = field_add(f);
	unsigned int field = 100 + (unsigned int)random_below(r, 100000);

	switch (random_below(r, 4)) {
	case 0:
		put_varint(out, field, random_next(r));
		break;
	case 1:
		put_bytes(out, field, "\xff\xff\xff", random_below(r, 4));
		break;
	case 2:
		buf_add_varint(out, field << 3 | 1);
		buf_add(out, "12345678", 8);
		break;
	default:
		buf_add_varint(out, field << 3 | 5);
		buf_add(out, "1234", 4);
		break;
	}
}

static void fields_write(struct random *r, struct fields *f, struct buf *out)
{
	if (!random_below(r, 4))
		unknown_add(r, f);
	for (size_t i = f->n; i > 0; i--) {
		size_t pick = random_below(r, 3) ? i - 1 : random_below(r, i);
		struct buf run = f->runs[pick];

		buf_add(out, run.data, run.len);
		buf_release(&run);
		f->runs[pick] = f->runs[i - 1];
	}
	f->n = 0;
}

/* Absent, once, or twice. */
static void int_add(struct random *r, struct fields *f, unsigned int field, int64_t v)
{
	uint64_t times = random_below(r, 8);

	if (times == 0)
		put_varint(field_add(f), field, random_next(r));
	if (times != 1)
		put_varint(field_add(f), field, (uint64_t)v);
}

static void name_add(struct random *r, struct fields *f, unsigned int field, const char *stem)
{
	struct buf text = BUF_INIT;

	if (!random_below(r, 8))
		return;
	buf_addf(&text, "%s %d", stem, (int)random_below(r, 30));
	for (uint64_t n = random_below(r, 12) ? 0 : random_below(r, 300); n > 0; n--)
		buf_add_u8(&text, 'x');
	put_message(field_add(f), field, &text);
	buf_release(&text);
}

static void random_stat(struct random *r, struct buf *out)
{
	struct fields f = { .n = 0 };
	struct buf *value = field_add(&f);

	put_varint(field_add(&f), 1, random_below(r, 9));
	switch (random_below(r, 7)) {
	case 0:
		buf_add_varint(value, 2 << 3 | 1);
		buf_add(value, "\0\0\0\0\0\0\xf0\x3f", 8);
		break;
	case 1:
		put_bytes(value, 5, "some text", random_below(r, 10));
		break;
	case 2:
		put_bytes(value, 6, "\0\1\2\3\4\5\6\7\x8\x9", random_below(r, 10));
		break;
	case 3:
		put_varint(value, 4, (uint64_t)-1);
		break;
	case 4:
		put_varint(value, 7, random_below(r, 9));
		break;
	default:
		put_varint(value, 3, random_below(r, 1000));
		break;
	}
	fields_write(r, &f, out);
}

static void stats_add(struct random *r, struct fields *f, unsigned int field)
{
	for (uint64_t n = random_below(r, 3); n > 0; n--) {
		struct buf stat = BUF_INIT;

		random_stat(r, &stat);
		put_message(field_add(f), field, &stat);
		buf_release(&stat);
	}
}

static int64_t random_time(struct random *r, int64_t span)
{
	int64_t v = (int64_t)random_below(r, (uint64_t)span);

	return random_below(r, 6) ? v : random_below(r, 2) ? -v : 0;
}

static void random_event(struct random *r, int64_t span_ns, struct buf *out)
{
	struct fields f = { .n = 0 };

	stats_add(r, &f, 4);
	put_varint(field_add(&f), 1, 1 + random_below(r, 5));
	int_add(r, &f, 3, random_time(r, span_ns * 1000));
	if (random_below(r, 10))
		int_add(r, &f, 2, random_time(r, span_ns * 1000));
	else
		put_varint(field_add(&f), 5, random_below(r, 100));
	fields_write(r, &f, out);
}

static void random_line(struct random *r, int64_t span_ns, struct buf *out)
{
	struct fields f = { .n = 0 };

	for (uint64_t n = random_below(r, 20); n > 0; n--) {
		struct buf event = BUF_INIT;

		random_event(r, span_ns, &event);
		put_message(field_add(&f), 4, &event);
		buf_release(&event);
	}
	int_add(r, &f, 3, random_time(r, span_ns));
	name_add(r, &f, 2, "line");
	int_add(r, &f, 1, random_time(r, 100));
	int_add(r, &f, 9, random_time(r, 1000));
	int_add(r, &f, 10, random_time(r, 100));
	name_add(r, &f, 11, "shown as");
	fields_write(r, &f, out);
}

static void random_entry(struct random *r, int64_t id, struct buf *out)
{
	struct fields f = { .n = 0 };
	struct buf value = BUF_INIT;

	put_varint(field_add(&f), 1, (uint64_t)id);
	name_add(r, &f, 2, "metadata");
	fields_write(r, &f, &value);
	put_varint(out, 1, (uint64_t)id);
	put_message(out, 2, &value);
	buf_release(&value);
}

static void random_plane(struct random *r, int64_t span_ns, struct buf *out)
{
	struct fields f = { .n = 0 };
	struct buf part = BUF_INIT;

	int_add(r, &f, 1, random_time(r, 100));
	name_add(r, &f, 2, random_below(r, 2) ? "/device:GPU:1" : "plane");
	for (uint64_t n = random_below(r, 6); n > 0; n--) {
		buf_reset(&part);
		random_line(r, span_ns, &part);
		put_message(field_add(&f), 3, &part);
	}
	for (int64_t id = (int64_t)random_below(r, 5); id > 0; id--) {
		buf_reset(&part);
		random_entry(r, id, &part);
		put_message(field_add(&f), 4 + (unsigned int)random_below(r, 2), &part);
	}
	stats_add(r, &f, 6);
	fields_write(r, &f, out);
	buf_release(&part);
}

void random_xspace(struct random *r, int64_t span_ns, struct buf *out)
{
	struct fields f = { .n = 0 };
	struct buf plane = BUF_INIT;

	for (uint64_t n = random_below(r, 5); n > 0; n--) {
		buf_reset(&plane);
		random_plane(r, span_ns, &plane);
		put_message(field_add(&f), 1, &plane);
	}
	name_add(r, &f, 2, "error");
	name_add(r, &f, 3, "warning");
	name_add(r, &f, 4, "host");
	fields_write(r, &f, out);
	buf_release(&plane);
}

/* ---- comparing ---- */

Tensorflow__Profiler__XSpace *unpack(const struct buf *b)
{
	Tensorflow__Profiler__XSpace *space = tensorflow__profiler__xspace__unpack(NULL, b->len,
										   b->data);

	CHECK(space);
	return space;
}

/* protobuf-c packs a message one way only, unknown fields included. */
void check_same(const Tensorflow__Profiler__XSpace *a, const Tensorflow__Profiler__XSpace *b)
{
	size_t len = tensorflow__profiler__xspace__get_packed_size(a);
	uint8_t *a_bytes = xmalloc(len), *b_bytes;

	CHECK_EQ(tensorflow__profiler__xspace__get_packed_size(b), len);
	b_bytes = xmalloc(len);
	tensorflow__profiler__xspace__pack(a, a_bytes);
	tensorflow__profiler__xspace__pack(b, b_bytes);
	CHECK(!memcmp(a_bytes, b_bytes, len));
	free(a_bytes);
	free(b_bytes);
}

static int dump_plane(void *arg, const struct xs_plane *p)
{
	buf_addf(arg, "plane %d id %" PRId64 " %s\n", (int)p->index, p->id, p->name);
	return 0;
}

static int dump_event_metadata(void *arg, int64_t id, const char *name, size_t len)
{
	buf_addf(arg, "event metadata %" PRId64 " %.*s\n", id, (int)len, name);
	return 0;
}

static int dump_stat_metadata(void *arg, int64_t id, const char *name, size_t len)
{
	buf_addf(arg, "stat metadata %" PRId64 " %.*s\n", id, (int)len, name);
	return 0;
}

static int dump_stat(void *arg, const struct xs_stat *s)
{
	static const char *const kinds[] = {
		"none", "double", "uint", "int", "str", "bytes", "ref"
	};

	buf_addf(arg, "stat %" PRId64 " %s ", s->metadata_id, kinds[s->kind]);
	if (s->kind == XS_DOUBLE)
		buf_addf(arg, "%g", s->d);
	else if (s->kind == XS_STR || s->kind == XS_BYTES)
		buf_add(arg, s->bytes, s->len);
	else
		buf_addf(arg, "%" PRId64, s->i);
	buf_add_u8(arg, '\n');
	return 0;
}

static int dump_line(void *arg, const struct xs_line *l)
{
	buf_addf(arg, "line %" PRId64 " %s at %" PRId64 " shown %" PRId64 " %s\n", l->id, l->name,
		 l->timestamp_ns, l->display_id, l->display_name);
	return 0;
}

static int dump_event(void *arg, const struct xs_event *ev)
{
	buf_addf(arg, "event %" PRId64 " %s %" PRId64 " +%" PRId64 "\n", ev->metadata_id,
		 ev->is_aggregate ? "times" : "at",
		 ev->is_aggregate ? ev->num_occurrences : ev->offset_ps, ev->duration_ps);
	for (size_t i = 0; i < ev->n_stats; i++)
		dump_stat(arg, &ev->stats[i]);
	return 0;
}

static int dump_text(void *arg, int field, const char *s, size_t len)
{
	buf_addf(arg, "text %d %.*s\n", field, (int)len, s);
	return 0;
}

static int dump_line_end(void *arg)
{
	buf_add_str(arg, "line end\n");
	return 0;
}

static int dump_plane_end(void *arg)
{
	buf_add_str(arg, "plane end\n");
	return 0;
}

int dump(const struct xs_source *in, struct buf *out, struct err *e)
{
	static const struct xs_visitor visitor = {
		.plane_begin = dump_plane,
		.stat_metadata = dump_stat_metadata,
		.event_metadata = dump_event_metadata,
		.plane_stat = dump_stat,
		.line_begin = dump_line,
		.event = dump_event,
		.line_end = dump_line_end,
		.plane_end = dump_plane_end,
		.text = dump_text,
		.want_stats = true,
	};

	return xs_read(in, &visitor, out, e);
}
