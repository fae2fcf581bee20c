/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

/* What dump() must say, written by hand from the unpacked message. */
static void expect_stat(struct buf *out, const Tensorflow__Profiler__XStat *s)
{
	buf_addf(out, "stat %" PRId64 " ", s->metadata_id);
	switch (s->value_case) {
	case TENSORFLOW__PROFILER__XSTAT__VALUE_DOUBLE_VALUE:
		buf_addf(out, "double %g", s->double_value);
		break;
	case TENSORFLOW__PROFILER__XSTAT__VALUE_UINT64_VALUE:
		buf_addf(out, "uint %" PRIu64, s->uint64_value);
		break;
	case TENSORFLOW__PROFILER__XSTAT__VALUE_INT64_VALUE:
		buf_addf(out, "int %" PRId64, s->int64_value);
		break;
	case TENSORFLOW__PROFILER__XSTAT__VALUE_STR_VALUE:
		buf_addf(out, "str %s", s->str_value);
		break;
	case TENSORFLOW__PROFILER__XSTAT__VALUE_BYTES_VALUE:
		buf_add_str(out, "bytes ");
		buf_add(out, s->bytes_value.data, s->bytes_value.len);
		break;
	case TENSORFLOW__PROFILER__XSTAT__VALUE_REF_VALUE:
		buf_addf(out, "ref %" PRIu64, s->ref_value);
		break;
	default:
		buf_add_str(out, "none 0");
		break;
	}
	buf_add_u8(out, '\n');
}

static void expect_event(struct buf *out, const Tensorflow__Profiler__XEvent *ev)
{
	bool aggregate = ev->data_case == TENSORFLOW__PROFILER__XEVENT__DATA_NUM_OCCURRENCES;
	bool timed = ev->data_case == TENSORFLOW__PROFILER__XEVENT__DATA_OFFSET_PS;

	buf_addf(out, "event %" PRId64 " %s %" PRId64 " +%" PRId64 "\n", ev->metadata_id,
		 aggregate ? "times" : "at",
		 aggregate ? ev->num_occurrences
		 : timed   ? ev->offset_ps
			   : 0,
		 ev->duration_ps);
	for (size_t i = 0; i < ev->n_stats; i++)
		expect_stat(out, ev->stats[i]);
}

static void expect_plane(struct buf *out, size_t index, const Tensorflow__Profiler__XPlane *p)
{
	buf_addf(out, "plane %zu id %" PRId64 " %s\n", index, p->id, p->name);
	for (size_t i = 0; i < p->n_stat_metadata; i++)
		buf_addf(out, "stat metadata %" PRId64 " %s\n", p->stat_metadata[i]->key,
			 p->stat_metadata[i]->value->name);
	for (size_t i = 0; i < p->n_event_metadata; i++)
		buf_addf(out, "event metadata %" PRId64 " %s\n", p->event_metadata[i]->key,
			 p->event_metadata[i]->value->name);
	for (size_t i = 0; i < p->n_stats; i++)
		expect_stat(out, p->stats[i]);
	for (size_t i = 0; i < p->n_lines; i++) {
		const Tensorflow__Profiler__XLine *l = p->lines[i];

		buf_addf(out, "line %" PRId64 " %s at %" PRId64 " shown %" PRId64 " %s\n", l->id,
			 l->name, l->timestamp_ns, l->display_id, l->display_name);
		for (size_t k = 0; k < l->n_events; k++)
			expect_event(out, l->events[k]);
		buf_add_str(out, "line end\n");
	}
	buf_add_str(out, "plane end\n");
}

/* Texts come in the wire's order; random_xspace() writes each at most once, so this is by field. */
static void without_texts(struct buf *out)
{
	char *text = strstr(buf_str(out), "\ntext ");

	if (!strncmp(buf_str(out), "text ", 5))
		buf_reset(out);
	else if (text)
		text[1] = '\0';
}

static void test_random_spaces_read_as_protobuf_c_does(struct random *r)
{
	for (int round = 0; round < 100; round++) {
		struct buf bytes = BUF_INIT, got = BUF_INIT, want = BUF_INIT, again = BUF_INIT;
		struct xs_source memory, window;
		Tensorflow__Profiler__XSpace *space;
		struct err e = { 0 };

		random_xspace(r, 1000, &bytes);
		memory = source_of(&bytes);
		space = unpack(&bytes);
		for (size_t i = 0; i < space->n_planes; i++)
			expect_plane(&want, i, space->planes[i]);
		CHECK_OK(dump(&memory, &got, &e), e);
		for (size_t size = 7; size < 300; size = size * 3 / 2) {
			buf_reset(&again);
			window = windowed(&memory, size);
			CHECK_OK(dump(&window, &again, &e), e);
			CHECK_STR(buf_str(&again), buf_str(&got));
		}
		without_texts(&got);
		CHECK_STR(buf_str(&got), buf_str(&want));
		tensorflow__profiler__xspace__free_unpacked(space, NULL);
		buf_release(&bytes);
		buf_release(&got);
		buf_release(&want);
		buf_release(&again);
	}
}

static void test_order_of_visits(void)
{
	struct buf space = BUF_INIT, plane = BUF_INIT, line = BUF_INIT, event = BUF_INIT,
		   out = BUF_INIT;
	struct xs_source in;
	struct err e = { 0 };

	put_varint(&event, 5, 3);
	put_message(&line, 4, &event);
	put_varint(&line, 3, 9);
	put_varint(&line, 3, 10);
	put_bytes(&space, 3, "early", 5);
	put_message(&plane, 3, &line);
	put_bytes(&plane, 6, "\x08\x01\x18\x02", 4);
	put_bytes(&plane, 4,
		  "\x08\x01\x12\x03\x12\x01"
		  "e",
		  7);
	put_bytes(&plane, 5,
		  "\x08\x01\x12\x03\x12\x01"
		  "s",
		  7);
	put_bytes(&plane, 2, "name", 4);
	put_message(&space, 1, &plane);
	in = source_of(&space);
	CHECK_OK(dump(&in, &out, &e), e);
	CHECK_STR(buf_str(&out), "plane 0 id 0 name\nstat metadata 1 s\nevent metadata 1 e\n"
				 "stat 1 uint 2\nline 0  at 10 shown 0 \nevent 0 times 3 +0\n"
				 "line end\nplane end\ntext 3 early\n");
	buf_release(&space);
	buf_release(&plane);
	buf_release(&line);
	buf_release(&event);
	buf_release(&out);
}

static int stop(void *arg, const struct xs_line *l)
{
	(void)arg;
	(void)l;
	return ERR_CANCELLED;
}

static void test_visitor_stops(void)
{
	static const struct xs_visitor visitor = { .line_begin = stop };
	static const uint8_t bytes[] = "\x0a\x02\x1a\x00";
	struct xs_source in = xs_source_memory(bytes, 4);
	struct err e = { 0 };

	CHECK_EQ(xs_read(&in, &visitor, NULL, &e), ERR_CANCELLED);
	CHECK_EQ(xs_read(&in, &visitor, NULL, NULL), ERR_CANCELLED);
	CHECK_STR(e.msg, "plane 0: line 0: reading stopped by its visitor");
}

static void test_long_names_are_cut(void)
{
	char name[3000];
	struct buf space = BUF_INIT, plane = BUF_INIT, out = BUF_INIT;
	struct xs_source in;
	struct err e = { 0 };

	memset(name, 'n', sizeof(name));
	put_bytes(&plane, 2, name, sizeof(name));
	put_message(&space, 1, &plane);
	in = source_of(&space);
	CHECK_OK(dump(&in, &out, &e), e);
	CHECK_EQ(out.len, strlen("plane 0 id 0 \nplane end\n") + 1023);
	buf_release(&space);
	buf_release(&plane);
	buf_release(&out);
}

static void test_stats_are_bounded(void)
{
	struct buf space = BUF_INIT, plane = BUF_INIT, line = BUF_INIT, event = BUF_INIT,
		   out = BUF_INIT;
	struct xs_source in;
	struct err e = { 0 };

	for (int i = 0; i <= XS_MAX_STATS; i++)
		put_bytes(&event, 4, "", 0);
	put_message(&line, 4, &event);
	put_message(&plane, 3, &line);
	put_message(&space, 1, &plane);
	in = source_of(&space);
	CHECK_EQ(dump(&in, &out, &e), ERR_LIMIT);
	CHECK(strstr(e.msg, "plane 0: line 0: event 0: at byte "));
	buf_release(&space);
	buf_release(&plane);
	buf_release(&line);
	buf_release(&event);
	buf_release(&out);
}

int main(void)
{
	struct random r = random_seeded();

	test_random_spaces_read_as_protobuf_c_does(&r);
	test_order_of_visits();
	test_visitor_stops();
	test_long_names_are_cut();
	test_stats_are_bounded();
	return 0;
}
