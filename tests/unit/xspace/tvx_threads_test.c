/* SPDX-License-Identifier: Apache-2.0 */
/* A building in two threads against one in one. */
#include "base/mem.h"
#include "tests/lib/check.h"
#include "xspace/tvx/tvx.h"

#define EMPTY_LINES 20000
#define PLANES	    4
#define HELD	    6000 /* events at once: some lines are longer, most are short */

static uint64_t rng = 0x9e3779b97f4a7c15;

static uint64_t draw(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 16) % below;
}

/* Some events begin before those that were written before them. */
static void add_line(struct xs_builder *b, int64_t id, const char *name, uint64_t n)
{
	int64_t at = 0;
	char event[32];

	xs_line(b, id, name, 1000);
	for (uint64_t i = 0; i < n; i++) {
		at += (int64_t)draw(4000);
		snprintf(event, sizeof(event), "event %d", (int)draw(200));
		xs_event(b, event, draw(9) ? at : at / 2, (int64_t)draw(9000));
		if (!draw(20))
			xs_stat_uint(b, "flow", draw(n) << 2 | (1 + draw(2)));
	}
}

static void add_counters(struct xs_builder *b, uint64_t n)
{
	xs_line(b, 0, "_counters_", 0);
	for (uint64_t i = 0; i < n; i++) {
		xs_event(b, draw(2) ? "odd" : "even", (int64_t)draw(1000000), 0);
		xs_stat_double(b, "value", (double)draw(1000));
	}
}

static void make_space(struct buf *out)
{
	static const uint64_t sizes[] = { 9000, 3, 0, 2000, 50, 20000, 1, 700, 700, 200 };
	struct xs_builder *b = xs_builder_new();
	char name[32];

	for (int plane = 0; plane < PLANES; plane++) {
		snprintf(name, sizeof(name), "plane %d", plane);
		xs_plane(b, plane, name);
		for (size_t i = 0; plane < PLANES - 1 && i < ARRAY_SIZE(sizes); i++) {
			snprintf(name, sizeof(name), "line %d of %d", (int)i, plane);
			add_line(b, (int64_t)i, name, sizes[i] / (1 + (uint64_t)plane));
		}
		add_counters(b, plane % 2 ? 8000 : 0);
	}
	xs_finish(b, out);
	xs_builder_free(b);
}

static void build(const struct buf *space, const struct tvx_build *how, struct buf *out)
{
	struct xs_source in = xs_source_memory(space->data, space->len);
	const struct xs_sink sink = xs_sink_buf(out);
	struct err e;

	CHECK_OK(tvx_build(&in, how, &sink, &e), e);
}

/* However the lines are cut. */
static void test_same(const struct buf *space)
{
	static const size_t held[] = { 0, HELD, 1000 };

	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		struct tvx_build how = { .held_events = held[i] };
		struct buf one = BUF_INIT, two = BUF_INIT;

		build(space, &how, &one);
		how.in_two_threads = true;
		build(space, &how, &two);
		CHECK(one.len == two.len && !memcmp(one.data, two.data, one.len));
		buf_release(&one);
		buf_release(&two);
	}
}

/* ---- parts ---- */

struct parts {
	const struct buf *out; /* what the sink has been given */
	const struct tvx *whole;
	uint64_t source_bytes;
	size_t n, tracks; /* parts seen, and the tracks of the last one */
};

static int add_count(void *arg, const struct tvx_entry *en)
{
	uint64_t *count = arg;

	*count += en->count;
	return 0;
}

static void check_entries(const struct tvx *x, uint32_t track, uint64_t events, unsigned int shift)
{
	const struct tvx_window w = { INT64_MIN / 4, INT64_MAX / 4, shift, 0 };
	uint64_t count = 0;
	struct err e;

	CHECK_OK(tvx_query(x, track, &w, add_count, &count, &e), e);
	CHECK_EQ(count, events);
}

/* A track of a part is the one of the whole index, but for the places of what it has. */
static void check_track(const struct tvx *x, const struct tvx *whole, uint32_t i)
{
	const struct tvx_track *part, *want;
	size_t len, want_len;
	const char *name, *want_name;

	tvx_tracks(x, &part);
	tvx_tracks(whole, &want);
	CHECK(!memcmp(&part[i], &want[i], sizeof(*part)));
	name = tvx_name(x, part[i].name, &len);
	want_name = tvx_name(whole, want[i].name, &want_len);
	CHECK(len == want_len && !memcmp(name, want_name, len));
	check_entries(x, i, want[i].events, 0);
	check_entries(x, i, want[i].events, 20);
}

static int check_part(void *arg, const struct tvx_writer *w, struct err *e)
{
	const struct tvx_total *totals, *want;
	const struct tvx_track *tracks;
	struct parts *p = arg;
	struct buf tables = BUF_INIT;
	uint64_t blocks_len;
	struct tvx *x;
	size_t n;

	CHECK_OK(tvx_write_part(w, &tables, &blocks_len, e), *e);
	CHECK(blocks_len <= p->out->len);
	CHECK_OK(tvx_open_part(&x, p->out->data, blocks_len, tables.data, tables.len,
			       p->source_bytes, e),
		 *e);
	n = tvx_tracks(x, &tracks);
	CHECK(n >= p->tracks);
	for (; p->tracks < n; p->tracks++)
		check_track(x, p->whole, (uint32_t)p->tracks);
	n = tvx_totals(x, &totals);
	CHECK(tvx_totals(p->whole, &want) >= n && !memcmp(totals, want, n * sizeof(*want)));
	p->n++;
	tvx_close(x);
	buf_release(&tables);
	return 0;
}

static void test_parts(const struct buf *space)
{
	struct xs_source in = xs_source_memory(space->data, space->len);
	struct buf index = BUF_INIT, out = BUF_INIT;
	struct parts p = { .out = &out, .source_bytes = space->len };
	struct tvx_build how = { .arg = &p, .held_events = HELD, .in_two_threads = true };
	const struct xs_sink sink = xs_sink_buf(&out);
	const struct tvx_track *tracks;
	struct tvx *whole;
	struct err e;

	build(space, &how, &index);
	CHECK_OK(tvx_open(&whole, index.data, index.len, space->len, &e), e);
	p.whole = whole;
	how.on_line = check_part;
	CHECK_OK(tvx_build(&in, &how, &sink, &e), e);
	CHECK(out.len == index.len && !memcmp(out.data, index.data, out.len));
	CHECK_EQ(p.tracks, tvx_tracks(whole, &tracks));
	CHECK(p.n > 5);
	tvx_close(whole);
	buf_release(&index);
	buf_release(&out);
}

static int count_call(void *arg, const struct tvx_writer *w, struct err *e)
{
	size_t *n = arg;

	(void)w;
	(void)e;
	++*n;
	return 0;
}

/* Lines without events do not wait for each other for ever. */
static void test_empty_lines(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf space = BUF_INIT, index = BUF_INIT;
	size_t n = 0;
	const struct tvx_build how = { .on_line = count_call, .arg = &n, .in_two_threads = true };

	xs_plane(b, 1, "plane");
	for (int64_t i = 0; i < EMPTY_LINES; i++)
		xs_line(b, i, "", 0);
	xs_finish(b, &space);
	xs_builder_free(b);
	build(&space, &how, &index);
	CHECK(n > 3 && n < EMPTY_LINES / 1000);
	buf_release(&space);
	buf_release(&index);
}

/* ---- what ends a building ---- */

struct ending {
	size_t calls, bytes; /* of go_on(), and that are written, until it ends */
};

static bool some_calls(void *arg, uint64_t done)
{
	struct ending *end = arg;

	(void)done;
	return end->calls && end->calls--;
}

static int some_bytes(void *arg, const void *data, size_t len, struct err *e)
{
	struct ending *end = arg;

	(void)data;
	if (len > end->bytes)
		return err_set(e, ERR_FULL, "no room");
	end->bytes -= len;
	return 0;
}

static void test_ends(const struct buf *space, bool in_two_threads)
{
	struct xs_source in = xs_source_memory(space->data, space->len);
	struct ending end;
	const struct tvx_build how = { .go_on = some_calls,
				       .arg = &end,
				       .held_events = HELD,
				       .in_two_threads = in_two_threads };
	const struct xs_sink sink = { .write = some_bytes, .arg = &end };
	struct err e;

	for (size_t calls = 0; calls < 12; calls++) {
		end = (struct ending){ calls, SIZE_MAX };
		CHECK_EQ(tvx_build(&in, &how, &sink, &e), ERR_CANCELLED);
	}
	for (size_t bytes = 0; bytes < 600000; bytes += 100000) {
		end = (struct ending){ SIZE_MAX, bytes };
		CHECK_EQ(tvx_build(&in, &how, &sink, &e), ERR_FULL);
		CHECK_STR(e.msg, "no room");
		CHECK_EQ(tvx_build(&in, &how, &sink, NULL), ERR_FULL);
	}
	in.size -= 100;
	end = (struct ending){ SIZE_MAX, SIZE_MAX };
	CHECK_EQ(tvx_build(&in, &how, &sink, &e), ERR_INVALID);
	/* the reason is what fails first in the order of the file */
	end = (struct ending){ SIZE_MAX, 0 };
	CHECK_EQ(tvx_build(&in, &how, &sink, &e), ERR_FULL);
}

int main(void)
{
	struct buf space = BUF_INIT;

	make_space(&space);
	test_same(&space);
	test_parts(&space);
	test_empty_lines();
	test_ends(&space, false);
	test_ends(&space, true);
	buf_release(&space);
	return 0;
}
