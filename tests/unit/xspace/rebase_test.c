/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

typedef Tensorflow__Profiler__XSpace Space;
typedef Tensorflow__Profiler__XPlane Plane;
typedef Tensorflow__Profiler__XLine Line;
typedef Tensorflow__Profiler__XEvent Event;
__extension__ typedef __int128 wide;

static int64_t shift(void *arg, int64_t ns)
{
	return (int64_t)((uint64_t)ns + (uint64_t) * (int64_t *)arg);
}

/* ---- the reference: the rules of xspace.h on unpacked messages ---- */

/* Whether the event stays. */
static bool reference_event(Event *ev, int64_t line_ns, int64_t written_ns, int64_t window_ns,
			    struct xs_counts *c)
{
	wide begin, end, window = (wide)window_ns * 1000, old_begin, old_end;
	bool instant = ev->duration_ps <= 0;

	if (ev->data_case == TENSORFLOW__PROFILER__XEVENT__DATA_NUM_OCCURRENCES)
		return true;
	if (ev->data_case == TENSORFLOW__PROFILER__XEVENT__DATA__NOT_SET)
		ev->offset_ps = 0;
	old_begin = begin = (wide)line_ns * 1000 + ev->offset_ps;
	old_end = end = begin + (instant ? 0 : ev->duration_ps);
	if (instant && (begin < 0 || begin >= window))
		return false;
	if (!instant && (end <= 0 || begin >= window))
		return false;
	begin = begin < 0 ? 0 : begin;
	end = end > window ? window : end;
	if (begin != old_begin || end != old_end) {
		c->clipped++;
		ev->duration_ps = (int64_t)(end - begin);
	}
	if ((int64_t)(begin - (wide)written_ns * 1000) != ev->offset_ps)
		ev->data_case = TENSORFLOW__PROFILER__XEVENT__DATA_OFFSET_PS;
	ev->offset_ps = (int64_t)(begin - (wide)written_ns * 1000);
	return true;
}

/* Whether the line stays. */
static bool reference_line(Line *l, const struct xs_rebase *how, struct xs_counts *c)
{
	int64_t moved = how->map ? how->map(how->arg, l->timestamp_ns) : l->timestamp_ns;
	size_t n = 0;

	l->timestamp_ns = how->window_ns && moved < 0 ? 0 : moved;
	if (!how->window_ns)
		return true;
	for (size_t i = 0; i < l->n_events; i++) {
		Event *ev = l->events[i];

		if (reference_event(ev, moved, l->timestamp_ns, how->window_ns, c)) {
			l->events[n++] = ev;
			continue;
		}
		tensorflow__profiler__xevent__free_unpacked(ev, NULL);
		c->trimmed++;
	}
	c->events += n;
	if (l->n_events && !n) {
		l->n_events = 0;
		return false;
	}
	l->n_events = n;
	return true;
}

static void reference(Space *s, const struct xs_rebase *how, struct xs_counts *c)
{
	*c = (struct xs_counts){ .planes = s->n_planes };
	for (size_t i = 0; i < s->n_planes; i++) {
		Plane *p = s->planes[i];
		size_t n = 0;

		for (size_t k = 0; k < p->n_lines; k++) {
			if (reference_line(p->lines[k], how, c))
				p->lines[n++] = p->lines[k];
			else
				tensorflow__profiler__xline__free_unpacked(p->lines[k], NULL);
		}
		c->lines += n;
		p->n_lines = n;
	}
}

/* ---- against it ---- */

static void check_counts(const struct xs_counts *got, const struct xs_counts *want, size_t bytes)
{
	CHECK_EQ(got->planes, want->planes);
	CHECK_EQ(got->lines, want->lines);
	CHECK_EQ(got->events, want->events);
	CHECK_EQ(got->trimmed, want->trimmed);
	CHECK_EQ(got->clipped, want->clipped);
	CHECK_EQ(got->bytes, bytes);
}

static void check_one(const struct buf *in, const struct xs_rebase *how, struct random *r,
		      struct xs_counts *sum)
{
	struct xs_source memory = source_of(in), window = windowed(&memory, random_below(r, 200));
	struct buf out = BUF_INIT, again = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out), again_sink = xs_sink_buf(&again);
	struct xs_counts want, got;
	Space *expected = unpack(in), *space;
	struct err e = { 0 };

	reference(expected, how, &want);
	CHECK_OK(xs_rebase(&memory, how, &sink, &got, &e), e);
	CHECK_EQ(out.cap, out.len + 1); /* the size was known before the first byte */
	check_counts(&got, &want, out.len);
	sum->clipped += got.clipped;
	sum->trimmed += got.trimmed;
	space = unpack(&out);
	check_same(space, expected);
	CHECK_OK(xs_rebase(&window, how, &again_sink, &got, &e), e);
	check_counts(&got, &want, out.len);
	CHECK_EQ(again.len, out.len);
	CHECK(!out.len || !memcmp(again.data, out.data, out.len));
	tensorflow__profiler__xspace__free_unpacked(expected, NULL);
	tensorflow__profiler__xspace__free_unpacked(space, NULL);
	buf_release(&out);
	buf_release(&again);
}

static void test_random_spaces_as_the_reference_does(struct random *r)
{
	static const int64_t shifts[] = {
		0, 1, -1, 300, -300, 700, -700, INT64_C(1760000000000000000), INT64_MIN, INT64_MAX,
	};
	static const int64_t windows[] = { 0, 1, 500, 900, 5000, INT64_MAX / 1000 };

	struct xs_counts sum = { 0 };

	for (int round = 0; round < 250; round++) {
		int64_t by = shifts[random_below(r, ARRAY_SIZE(shifts))];
		struct xs_rebase how = { .map = random_below(r, 8) ? shift : NULL, .arg = &by };
		struct buf in = BUF_INIT;

		random_xspace(r, 1000, &in);
		how.window_ns = windows[random_below(r, ARRAY_SIZE(windows))];
		check_one(&in, &how, r, &sum);
		buf_release(&in);
	}
	CHECK(sum.clipped > 100 && sum.trimmed > 100);
}

/* ---- by hand ---- */

static void rebase(const struct buf *in, const struct xs_rebase *how, struct buf *out)
{
	struct xs_source source = source_of(in);
	struct xs_sink sink = xs_sink_buf(out);
	struct err e = { 0 };

	CHECK_OK(xs_rebase(&source, how, &sink, NULL, &e), e);
}

/* One plane of one line, given in bytes; what the line's bytes are after the rebase. */
static void check_line(const char *line, size_t line_len, int64_t by, const char *want,
		       size_t want_len)
{
	struct buf in = BUF_INIT, out = BUF_INIT, plane = BUF_INIT, want_plane = BUF_INIT;
	struct xs_rebase how = { .map = shift, .arg = &by };

	put_bytes(&plane, 3, line, line_len);
	put_message(&in, 1, &plane);
	rebase(&in, &how, &out);
	buf_reset(&plane);
	put_bytes(&plane, 3, want, want_len);
	put_message(&want_plane, 1, &plane);
	CHECK_EQ(out.len, want_plane.len);
	CHECK(!memcmp(out.data, want_plane.data, out.len));
	buf_release(&in);
	buf_release(&out);
	buf_release(&plane);
	buf_release(&want_plane);
}

static void test_times_of_every_shape(void)
{
	/* Absent is 0: written only if it is not 0 afterwards. */
	check_line("", 0, 0, "", 0);
	check_line("", 0, 5, "\x18\x05", 2);
	check_line("\x08\x01", 2, 5, "\x18\x05\x08\x01", 4);
	check_line("\x18\x05", 2, -5, "\x18\x00", 2);
	check_line("\x18\x05", 2, 300, "\x18\xb1\x02", 3);
	check_line("\x18\x05", 2, -6, "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
	check_line("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 2, "\x18\x01", 2);
	/* Padded to ten bytes; a padded tag; behind the events; twice: the last counts. */
	check_line("\x18\x85\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, 1, "\x18\x06", 2);
	check_line("\x98\x80\x00\x05", 4, 1, "\x98\x80\x00\x06", 4);
	check_line("\x22\x00\x18\x05\x48\x01", 6, 1, "\x22\x00\x18\x06\x48\x01", 6);
	check_line("\x18\x05\x18\x07", 4, 1, "\x18\x05\x18\x08", 4);
	/* Unknown fields of every type. */
	check_line("\xa0\x06\x01\xa1\x06"
		   "12345678\xa2\x06\x02zz\xa5\x06"
		   "1234\x18\x01",
		   26, 1,
		   "\xa0\x06\x01\xa1\x06"
		   "12345678\xa2\x06\x02zz\xa5\x06"
		   "1234\x18\x02",
		   26);
}

static void add_line(struct xs_builder *b, int64_t ns)
{
	xs_line(b, 1, "l", ns);
	xs_event(b, "before", -10000, 5000);
	xs_event(b, "up to the begin", -5000, 5000);
	xs_event(b, "into", -2000, 5000);
	xs_event(b, "up to", -2000, 2000);
	xs_event(b, "first", 0, 0);
	xs_event(b, "inside", 1000, 1000);
	xs_event(b, "around", -5000, 50000);
	xs_event(b, "out of", 9000, 2000);
	xs_event(b, "at the end", 10000, 0);
	xs_event(b, "after", 10000, 1000);
}

static void check_times(const Event *ev, int64_t offset_ps, int64_t duration_ps)
{
	CHECK_EQ(ev->data_case, TENSORFLOW__PROFILER__XEVENT__DATA_OFFSET_PS);
	CHECK_EQ(ev->offset_ps, offset_ps);
	CHECK_EQ(ev->duration_ps, duration_ps);
}

static void test_window_clips_and_drops(void)
{
	struct xs_builder *b = xs_builder_new();
	int64_t by = -100;
	struct xs_rebase how = { .map = shift, .arg = &by, .window_ns = 10 };
	struct buf in = BUF_INIT, out = BUF_INIT;
	const Line *l;
	Space *s;

	xs_plane(b, 1, "p");
	add_line(b, 100);
	xs_line(b, 2, "had none", 50);
	xs_line(b, 3, "loses all", 500);
	xs_event(b, "after", 0, 1);
	xs_line(b, 4, "begins before", 97);
	xs_event(b, "into", 0, 4000);
	xs_event(b, "inside", 4000, 1000);
	xs_finish(b, &in);
	rebase(&in, &how, &out);
	s = unpack(&out);
	CHECK_EQ(s->planes[0]->n_lines, 3);
	l = s->planes[0]->lines[0];
	CHECK_EQ(l->timestamp_ns, 0);
	CHECK_EQ(l->n_events, 5);
	check_times(l->events[0], 0, 3000);
	check_times(l->events[1], 0, 0);
	check_times(l->events[2], 1000, 1000);
	check_times(l->events[3], 0, 10000);
	check_times(l->events[4], 9000, 1000);
	l = s->planes[0]->lines[1];
	CHECK_EQ(l->timestamp_ns, 0);
	CHECK_EQ(l->n_events, 0);
	l = s->planes[0]->lines[2];
	CHECK_EQ(l->timestamp_ns, 0);
	CHECK_EQ(l->n_events, 2);
	check_times(l->events[0], 0, 1000);
	check_times(l->events[1], 1000, 1000);
	tensorflow__profiler__xspace__free_unpacked(s, NULL);
	buf_release(&in);
	buf_release(&out);
	xs_builder_free(b);
}

/* A window of 10 ns that ends at 12 ns on this clock, and one that ends at 8. */
static void test_window_of_another_rate(void)
{
	struct buf in = BUF_INIT, later = BUF_INIT, earlier = BUF_INIT;
	struct xs_rebase how = { .window_ns = 10, .cut_ns = 12 };
	struct xs_builder *b = xs_builder_new();
	Space *space;
	Event **ev;

	xs_plane(b, 1, "p");
	xs_line(b, 1, "l", 0);
	xs_event(b, "inside", 1000, 1000);
	xs_event(b, "over the earlier end", 7000, 2000);
	xs_event(b, "out of", 9000, 5000);
	xs_event(b, "instant", 10000, 0);
	xs_event(b, "after", 11000, 500);
	xs_event(b, "of the next", 12000, 0);
	xs_finish(b, &in);
	rebase(&in, &how, &later);
	space = unpack(&later);
	CHECK_EQ(space->planes[0]->lines[0]->n_events, 5);
	ev = space->planes[0]->lines[0]->events;
	check_times(ev[0], 1000, 1000);
	check_times(ev[1], 7000, 2000);
	check_times(ev[2], 9000, 1000);
	check_times(ev[3], 9999, 0);
	check_times(ev[4], 9999, 1);
	tensorflow__profiler__xspace__free_unpacked(space, NULL);
	how.cut_ns = 8;
	rebase(&in, &how, &earlier);
	space = unpack(&earlier);
	CHECK_EQ(space->planes[0]->lines[0]->n_events, 2);
	ev = space->planes[0]->lines[0]->events;
	check_times(ev[0], 1000, 1000);
	check_times(ev[1], 7000, 1000);
	tensorflow__profiler__xspace__free_unpacked(space, NULL);
	buf_release(&in);
	buf_release(&later);
	buf_release(&earlier);
	xs_builder_free(b);
}

/* ---- what is refused ---- */

static void check_refused(const void *bytes, size_t len, int64_t window_ns, const char *why)
{
	struct xs_source memory = xs_source_memory(bytes, len), window = windowed(&memory, 1);
	struct xs_rebase how = { .window_ns = window_ns };
	struct buf out = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out);
	struct err e = { 0 };

	CHECK_EQ(xs_rebase(&memory, &how, &sink, NULL, &e), ERR_INVALID);
	CHECK_STR(e.msg, why);
	e.msg[0] = '\0';
	CHECK_EQ(xs_rebase(&window, &how, &sink, NULL, &e), ERR_INVALID);
	CHECK_STR(e.msg, why);
	CHECK_EQ(out.len, 0);
	buf_release(&out);
}

static void test_malformed_input_is_refused(void)
{
	check_refused("\x0a\x06\x1a\x00\x1a\x02\x22\x05", 8, 0,
		      "plane 0: line 1: at byte 6: length 5 runs past its parent");
	check_refused("\x0a\x00\x0a\x05\x10", 5, 0, "at byte 2: length 5 runs past its parent");
	check_refused("\x0a\x03\x1a\x01\x22", 5, 0,
		      "plane 0: line 0: at byte 4: a field runs past its parent");
}

static void test_windows_out_of_range_are_refused(void)
{
	check_refused("", 0, -1, "a window of -1 ns");
	check_refused("", 0, INT64_MAX, "a window of 9223372036854775807 ns");
}

static void check_limit(const struct buf *in, const char *why)
{
	struct xs_source source = source_of(in);
	struct xs_rebase how = { 0 };
	struct buf out = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out);
	struct err e = { 0 };

	CHECK_EQ(xs_rebase(&source, &how, &sink, NULL, &e), ERR_LIMIT);
	CHECK_STR(e.msg, why);
	CHECK_EQ(out.len, 0);
}

static void test_tables_are_bounded(void)
{
	struct buf in = BUF_INIT, plane = BUF_INIT;

	for (int i = 0; i <= XS_MAX_PLANES; i++)
		put_bytes(&in, 1, "", 0);
	check_limit(&in, "more than 65536 planes");
	buf_reset(&in);
	for (int i = 0; i <= XS_MAX_LINES; i++)
		put_bytes(&plane, 3, "", 0);
	put_message(&in, 1, &plane);
	check_limit(&in, "plane 0: line 524288: more than 524288 lines");
	buf_release(&in);
	buf_release(&plane);
}

static int refuse(void *arg, const void *data, size_t len, struct err *e)
{
	(void)arg;
	(void)data;
	return err_set(e, ERR_IO, "no room for %zu bytes", len);
}

static void test_sink_that_fails(void)
{
	struct xs_source in = xs_source_memory("\x22\x01x", 3);
	struct xs_rebase how = { 0 };
	struct xs_sink sink = { .write = refuse };
	struct err e = { 0 };

	CHECK_EQ(xs_rebase(&in, &how, &sink, NULL, &e), ERR_IO);
	CHECK_STR(e.msg, "no room for 3 bytes");
}

/* ---- knots: acceptance test 13 of the clock's design ---- */

#define KNOTS  40
#define EVENTS 3000

/* A clock up to 100 ppm fast or slow, steered now and then: 0.01 to 10 s between knots. */
static void random_knots(struct random *r, struct xs_knot knots[KNOTS])
{
	knots[0] = (struct xs_knot){ INT64_C(1000000) * (int64_t)random_below(r, 1000000),
				     INT64_C(1000) * (int64_t)random_below(r, 1000000) };
	for (size_t i = 1; i < KNOTS; i++) {
		int64_t ns = INT64_C(10000000) * (1 + (int64_t)random_below(r, 1000));
		int64_t ppb = (int64_t)random_below(r, 200001) - 100000;

		knots[i].from_ns = knots[i - 1].from_ns + ns;
		knots[i].to_ns = knots[i - 1].to_ns + ns + (int64_t)((wide)ns * ppb / 1000000000);
	}
}

/* The definition, piece by piece, by division. */
static wide reference_curve(const struct xs_knot *k, wide ps)
{
	size_t i = 0;

	if (ps <= (wide)k[0].from_ns * 1000)
		return (wide)k[0].to_ns * 1000 + ps - (wide)k[0].from_ns * 1000;
	while (i + 1 < KNOTS && ps >= (wide)k[i + 1].from_ns * 1000)
		i++;
	ps -= (wide)k[i].from_ns * 1000;
	if (i + 1 < KNOTS)
		ps = ps * (k[i + 1].to_ns - k[i].to_ns) / (k[i + 1].from_ns - k[i].from_ns);
	return (wide)k[i].to_ns * 1000 + ps;
}

/* Events that nest and touch, over all knots and beyond. */
static void build_long_line(struct random *r, const struct xs_knot *k, struct buf *out)
{
	struct xs_builder *b = xs_builder_new();
	int64_t line_ns = k[0].from_ns - 1000000;
	int64_t each_ps = (k[KNOTS - 1].from_ns - line_ns) * 1000 / EVENTS * 3 + 7;
	int64_t at = (int64_t)random_below(r, 1000);

	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "long", line_ns);
	for (int i = 0; i < EVENTS; i += 3, at += each_ps) {
		xs_event(b, "outer", at, each_ps);
		xs_event(b, "middle", at, each_ps / 3);
		xs_event(b, "inner", at + each_ps / 3, (int64_t)random_below(r, 3));
	}
	xs_finish(b, out);
	xs_builder_free(b);
}

static wide begin_of(const Line *l, size_t i)
{
	return (wide)l->timestamp_ns * 1000 + l->events[i]->offset_ps;
}

static wide end_of(const Line *l, size_t i)
{
	return begin_of(l, i) + l->events[i]->duration_ps;
}

static bool close_to(wide a, wide b)
{
	return a - b <= 1 && b - a <= 1;
}

static void check_moved(const Line *before, const Line *after, const struct xs_knot *knots)
{
	CHECK_EQ(after->n_events, before->n_events);
	for (size_t i = 0; i < before->n_events; i++) {
		int64_t was = before->events[i]->duration_ps, is = after->events[i]->duration_ps;

		CHECK_EQ(after->events[i]->metadata_id, before->events[i]->metadata_id);
		CHECK(close_to(begin_of(after, i), reference_curve(knots, begin_of(before, i))));
		CHECK(close_to(end_of(after, i), reference_curve(knots, end_of(before, i))));
		CHECK(llabs(is - was) <= was / 10000 + 1);
		if (i % 3)
			CHECK(begin_of(after, i) >= begin_of(after, i - i % 3) &&
			      end_of(after, i) <= end_of(after, i - i % 3));
		else if (i)
			CHECK(begin_of(after, i) == end_of(after, i - 3));
	}
}

/* Order, nesting, touching, count; durations within 100 ppm; what is right already stays, to the byte. */
static void test_knots(struct random *r)
{
	struct xs_knot knots[KNOTS], same[KNOTS];
	struct xs_rebase how = { .knots = knots, .n_knots = KNOTS };
	struct buf in = BUF_INIT, out = BUF_INIT, again = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out), again_sink = xs_sink_buf(&again);
	struct xs_source source;
	struct xs_counts counts;
	struct err e = { 0 };
	Space *before, *after;

	random_knots(r, knots);
	build_long_line(r, knots, &in);
	source = source_of(&in);
	CHECK_OK(xs_rebase(&source, &how, &sink, &counts, &e), e);
	CHECK_EQ(counts.events, EVENTS);
	CHECK_EQ(counts.trimmed + counts.clipped, 0);
	before = unpack(&in);
	after = unpack(&out);
	check_moved(before->planes[0]->lines[0], after->planes[0]->lines[0], knots);
	for (size_t i = 0; i < KNOTS; i++)
		same[i] = (struct xs_knot){ knots[i].to_ns, knots[i].to_ns };
	how.knots = same;
	source = source_of(&out);
	CHECK_OK(xs_rebase(&source, &how, &again_sink, NULL, &e), e);
	CHECK(again.len == out.len && !memcmp(again.data, out.data, out.len));
	tensorflow__profiler__xspace__free_unpacked(before, NULL);
	tensorflow__profiler__xspace__free_unpacked(after, NULL);
	buf_release(&again);
	buf_release(&out);
	buf_release(&in);
}

/* A jump of the clock is two knots a nanosecond apart; a stop is two with the same to_ns. */
static void test_knots_that_jump(void)
{
	static const struct xs_knot jump[] = {
		{ 0, 0 },	    { 1000, 1000 },	{ 1001, 50001001 },
		{ 2000, 50002000 }, { 3000, 50002000 },
	};
	static const struct xs_knot bad[] = { { 0, 5 }, { 1, 4 } };
	struct xs_rebase how = { .knots = jump,
				 .n_knots = ARRAY_SIZE(jump),
				 .window_ns = 50002500 };
	struct buf in = BUF_INIT, out = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out);
	struct xs_builder *b = xs_builder_new();
	struct xs_source source;
	struct xs_counts counts;
	struct err e = { 0 };
	const Line *l;
	Space *s;

	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "line", 0);
	xs_event(b, "over it", 999000, 3000);
	xs_event(b, "while it stands", 2100000, 5000);
	xs_event(b, "beyond the window", 4000000, 1000);
	xs_finish(b, &in);
	source = source_of(&in);
	CHECK_OK(xs_rebase(&source, &how, &sink, &counts, &e), e);
	CHECK_EQ(counts.trimmed, 1);
	s = unpack(&out);
	l = s->planes[0]->lines[0];
	CHECK_EQ(l->n_events, 2);
	CHECK(begin_of(l, 0) == 999000 && end_of(l, 0) == INT64_C(50001002000));
	CHECK(begin_of(l, 1) == INT64_C(50002000000) && l->events[1]->duration_ps == 0);
	tensorflow__profiler__xspace__free_unpacked(s, NULL);
	how.knots = bad;
	how.n_knots = ARRAY_SIZE(bad);
	CHECK_EQ(xs_rebase(&source, &how, &sink, &counts, &e), ERR_INVALID);
	buf_release(&out);
	buf_release(&in);
	xs_builder_free(b);
}

int main(void)
{
	struct random r = random_seeded();

	test_times_of_every_shape();
	test_window_clips_and_drops();
	test_window_of_another_rate();
	test_malformed_input_is_refused();
	test_windows_out_of_range_are_refused();
	test_tables_are_bounded();
	test_sink_that_fails();
	test_random_spaces_as_the_reference_does(&r);
	for (int i = 0; i < 20; i++)
		test_knots(&r);
	test_knots_that_jump();
	return 0;
}
