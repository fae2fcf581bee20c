/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

typedef Tensorflow__Profiler__XSpace Space;
typedef Tensorflow__Profiler__XPlane Plane;
typedef Tensorflow__Profiler__XLine Line;
typedef Tensorflow__Profiler__XEvent Event;
typedef Tensorflow__Profiler__XStat Stat;

static Space *finish(struct xs_builder *b)
{
	struct buf out = BUF_INIT;
	Space *space;

	xs_finish(b, &out);
	space = unpack(&out);
	buf_release(&out);
	return space;
}

static void space_free(Space *s)
{
	tensorflow__profiler__xspace__free_unpacked(s, NULL);
}

static const char *event_name(const Plane *p, const Event *ev)
{
	for (size_t i = 0; i < p->n_event_metadata; i++) {
		if (p->event_metadata[i]->key == ev->metadata_id)
			return p->event_metadata[i]->value->name;
	}
	return NULL;
}

static const char *stat_name(const Plane *p, int64_t id)
{
	for (size_t i = 0; i < p->n_stat_metadata; i++) {
		if (p->stat_metadata[i]->key == id)
			return p->stat_metadata[i]->value->name;
	}
	return NULL;
}

static void test_planes_lines_events(void)
{
	struct xs_builder *b = xs_builder_new();
	const Plane *p;
	Space *s;

	xs_plane(b, 7, "/host:CPU");
	xs_line(b, 4711, "main", 1000);
	xs_event(b, "step", 0, 5000);
	xs_event(b, "mark", 2000, 0);
	xs_event(b, "step", 6000, 1);
	xs_line(b, 4712, "worker", 0);
	xs_event(b, "mark", -1, 1);
	xs_plane(b, 0, "empty");
	s = finish(b);
	CHECK_EQ(s->n_planes, 2);
	p = s->planes[0];
	CHECK_EQ(p->id, 7);
	CHECK_STR(p->name, "/host:CPU");
	CHECK_EQ(p->n_lines, 2);
	CHECK_EQ(p->lines[0]->id, 4711);
	CHECK_STR(p->lines[0]->name, "main");
	CHECK_EQ(p->lines[0]->timestamp_ns, 1000);
	CHECK_EQ(p->lines[0]->n_events, 3);
	CHECK_EQ(p->lines[1]->timestamp_ns, 0);
	CHECK_EQ(p->lines[1]->events[0]->offset_ps, -1);
	CHECK_EQ(p->n_event_metadata, 2);
	CHECK_EQ(p->event_metadata[0]->key, 1);
	CHECK_EQ(p->event_metadata[0]->value->id, 1);
	CHECK_STR(event_name(p, p->lines[0]->events[0]), "step");
	CHECK_STR(event_name(p, p->lines[0]->events[1]), "mark");
	CHECK_STR(event_name(p, p->lines[0]->events[2]), "step");
	CHECK_STR(event_name(p, p->lines[1]->events[0]), "mark");
	CHECK_EQ(p->lines[0]->events[0]->data_case, TENSORFLOW__PROFILER__XEVENT__DATA_OFFSET_PS);
	CHECK_EQ(p->lines[0]->events[0]->duration_ps, 5000);
	CHECK_EQ(p->lines[0]->events[1]->duration_ps, 0);
	CHECK_EQ(s->planes[1]->n_lines, 0);
	CHECK_EQ(s->planes[1]->n_event_metadata, 0);
	space_free(s);
	xs_builder_free(b);
}

static void check_stats(const Plane *p, Stat **stats, size_t n)
{
	CHECK_EQ(n, 5);
	CHECK_STR(stat_name(p, stats[0]->metadata_id), "int");
	CHECK_EQ(stats[0]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_INT64_VALUE);
	CHECK_EQ(stats[0]->int64_value, 0);
	CHECK_STR(stat_name(p, stats[1]->metadata_id), "uint");
	CHECK_EQ(stats[1]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_UINT64_VALUE);
	CHECK_EQ(stats[1]->uint64_value, UINT64_MAX);
	CHECK_STR(stat_name(p, stats[2]->metadata_id), "double");
	CHECK_EQ(stats[2]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_DOUBLE_VALUE);
	CHECK(stats[2]->double_value == -0.25);
	CHECK_STR(stat_name(p, stats[3]->metadata_id), "str");
	CHECK_EQ(stats[3]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_REF_VALUE);
	CHECK_STR(stat_name(p, (int64_t)stats[3]->ref_value), "text");
	CHECK_STR(stat_name(p, stats[4]->metadata_id), "bytes");
	CHECK_EQ(stats[4]->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_BYTES_VALUE);
	CHECK_EQ(stats[4]->bytes_value.len, 300);
	CHECK_EQ(stats[4]->bytes_value.data[299], 'b');
}

static void add_stats(struct xs_builder *b)
{
	char bytes[300];

	memset(bytes, 'b', sizeof(bytes));
	xs_stat_int(b, "int", 0);
	xs_stat_uint(b, "uint", UINT64_MAX);
	xs_stat_double(b, "double", -0.25);
	xs_stat_double(b, "nan", NAN);
	xs_stat_double(b, "inf", -INFINITY);
	xs_stat_str(b, "str", "text");
	xs_stat_bytes(b, "bytes", bytes, sizeof(bytes));
}

static void test_stats_of_planes_and_events(void)
{
	struct xs_builder *b = xs_builder_new();
	const Plane *p;
	Space *s;

	xs_plane(b, 1, "p");
	add_stats(b);
	xs_line(b, 1, "l", 0);
	xs_event(b, "e", 0, 0);
	add_stats(b);
	xs_event(b, "f", 0, 0);
	s = finish(b);
	p = s->planes[0];
	check_stats(p, p->stats, p->n_stats);
	check_stats(p, p->lines[0]->events[0]->stats, p->lines[0]->events[0]->n_stats);
	CHECK_EQ(p->lines[0]->events[1]->n_stats, 0);
	CHECK_EQ(p->n_stat_metadata, 6);
	for (size_t i = 0; i < p->n_stat_metadata; i++) {
		CHECK_EQ(p->stat_metadata[i]->key, i + 1);
		CHECK_EQ(p->stat_metadata[i]->value->id, i + 1);
	}
	space_free(s);
	xs_builder_free(b);
}

static void test_texts_and_reuse(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf out = BUF_INIT;
	Space *s;

	xs_hostname(b, "host-a");
	xs_plane(b, 1, "p");
	xs_warning(b, "w");
	xs_line(b, 1, "l", 0);
	xs_error(b, "e1");
	xs_event(b, "e", 0, 0);
	xs_error(b, "e2");
	xs_finish(b, &out);
	xs_plane(b, 1, "q");
	xs_line(b, 1, "l", 0);
	xs_event(b, "other", 0, 0);
	xs_finish(b, &out);
	s = unpack(&out);
	CHECK_EQ(s->n_planes, 2);
	CHECK_EQ(s->n_hostnames, 1);
	CHECK_STR(s->hostnames[0], "host-a");
	CHECK_EQ(s->n_warnings, 1);
	CHECK_EQ(s->n_errors, 2);
	CHECK_STR(s->errors[1], "e2");
	CHECK_STR(event_name(s->planes[1], s->planes[1]->lines[0]->events[0]), "other");
	space_free(s);
	buf_release(&out);
	xs_builder_free(b);
}

/* C++ readers refuse a whole file for one byte that is not UTF-8. */
static void test_text_becomes_utf8(void)
{
	static const char *const texts[][2] = {
		{ "plain", "plain" },
		{ "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x8e\xb5",
		  "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x8e\xb5" },
		{ "lone \xc3", "lone ?" },
		{ "\xff\xfe.", "??." },
		{ "over\xc0\xaf", "over??" },
		{ "sur\xed\xa0\x80", "sur???" },
		{ "high\xf4\x90\x80\x80", "high????" },
		{ "cut\xe2\x82", "cut??" },
	};
	struct xs_builder *b = xs_builder_new();
	Space *s;

	xs_plane(b, 1, texts[3][0]);
	xs_line(b, 1, texts[2][0], 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		xs_event(b, texts[i][0], 0, 0);
	s = finish(b);
	CHECK_STR(s->planes[0]->name, "??.");
	CHECK_STR(s->planes[0]->lines[0]->name, "lone ?");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK_STR(event_name(s->planes[0], s->planes[0]->lines[0]->events[i]), texts[i][1]);
	space_free(s);
	xs_builder_free(b);
}

/* Lengths of 127, 128, 16383, 16384: the byte kept for a length is not enough. */
static void test_lengths_at_every_width(void)
{
	for (int n = 1; n < 20000; n = n < 200 ? n + 1 : n * 3 / 2) {
		struct xs_builder *b = xs_builder_new();
		Space *s;

		xs_plane(b, 1, "p");
		xs_line(b, 1, "l", 0);
		for (int i = 0; i < n; i++)
			xs_event(b, "e", i, 1);
		s = finish(b);
		CHECK_EQ(s->planes[0]->lines[0]->n_events, n);
		CHECK_EQ(s->planes[0]->lines[0]->events[n - 1]->offset_ps, n - 1);
		space_free(s);
		xs_builder_free(b);
	}
}

/* The names of one plane's events, each once. */
static void test_event_names(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf out = BUF_INIT;

	xs_plane(b, 1, "p");
	xs_line(b, 1, "l", 0);
	xs_event(b, "a", 0, 0);
	xs_event(b, "b", 1, 0);
	xs_event(b, "a", 2, 0);
	xs_stat_int(b, "c", 1);
	CHECK_EQ(xs_event_names(b), 2);
	CHECK(xs_has_event_name(b, "b"));
	CHECK(!xs_has_event_name(b, "c"));
	xs_plane(b, 2, "q");
	CHECK_EQ(xs_event_names(b), 0);
	CHECK(!xs_has_event_name(b, "a"));
	xs_finish(b, &out);
	xs_builder_free(b);
	buf_release(&out);
}

static void test_empty(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf out = BUF_INIT;

	xs_finish(b, &out);
	CHECK_EQ(out.len, 0);
	buf_release(&out);
	xs_builder_free(b);
	xs_builder_free(NULL);
}

int main(void)
{
	test_planes_lines_events();
	test_stats_of_planes_and_events();
	test_texts_and_reuse();
	test_text_becomes_utf8();
	test_lengths_at_every_width();
	test_event_names();
	test_empty();
	return 0;
}
