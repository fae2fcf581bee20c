/* SPDX-License-Identifier: Apache-2.0 */
/* The index against brute force: random lines, random windows, every zoom. */
#include "xspace/tvx/tvx.h"

#include "base/mem.h"
#include "tests/lib/check.h"

#define NAMES	 40
#define TRUE_MAX 40000

/* What is true of a line. */
struct truth {
	struct one {
		int64_t start, length;
		unsigned int name;
		double value;
	} ev[TRUE_MAX];
	size_t n;
};

static uint64_t rng = 0x9e3779b97f4a7c15;

static uint64_t draw(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 16) % below;
}

static void add(struct truth *t, int64_t start, int64_t length, unsigned int name)
{
	if (t->n < TRUE_MAX)
		t->ev[t->n++] = (struct one){ start, length, name, 0 };
}

/* ---- lines ---- */

/* Calls within calls, written when they end, like those of a Python program. */
static int64_t add_call(struct truth *t, int64_t at, int depth)
{
	int64_t begin = at;

	at += 1 + (int64_t)draw(2000);
	for (uint64_t i = depth ? draw(4) : 0; i; i--)
		at = add_call(t, at + (int64_t)draw(300), depth - 1);
	at += (int64_t)draw(2000);
	add(t, begin, at - begin, (unsigned int)draw(NAMES));
	return at;
}

static void make_calls(struct truth *t)
{
	int64_t at = -5000000;

	for (int i = 0; i < 1500; i++)
		at = add_call(t, at + (int64_t)draw(100000), 7);
}

/* Events that overlap without being nested, instants among them, some at the same time. */
static void make_overlaps(struct truth *t)
{
	for (int i = 0; i < 9000; i++)
		add(t, (int64_t)draw(40000000) * (draw(4) ? 1 : 1000),
		    draw(5) ? (int64_t)draw(9000) : 0, (unsigned int)draw(NAMES));
	add(t, 0, 30000000000, 1); /* one as long as all of them */
	for (int i = 0; i < 50; i++)
		add(t, 77, 0, 2);
}

/* A burst in a line that is empty otherwise. */
static void make_burst(struct truth *t)
{
	add(t, 0, 10, 0);
	for (int i = 0; i < 20000; i++)
		add(t, 500000000000 + 20 * i, 15, (unsigned int)draw(3));
	add(t, 1000000000000, 1, 0);
}

static void make_few(struct truth *t)
{
	add(t, 5, 5, 3);
	add(t, 5, 5, 4);
	add(t, 10, 0, 5);
}

static void make_none(struct truth *t)
{
	t->n = 0;
}

static void (*const makers[])(struct truth *) = { make_calls, make_overlaps, make_burst, make_few,
						  make_none };

static void write_line(struct xs_builder *b, const struct truth *t, int id)
{
	char name[32];

	snprintf(name, sizeof(name), "line %d", id);
	xs_line(b, id, name, 1000);
	for (size_t i = 0; i < t->n; i++) {
		snprintf(name, sizeof(name), "event %u", t->ev[i].name);
		xs_event(b, name, t->ev[i].start, t->ev[i].length);
		xs_stat_uint(b, "number", i);
		xs_stat_str(b, "kind", t->ev[i].length ? "long" : "instant");
		if (i % 100 == 7)
			xs_stat_uint(b, "flow", (uint64_t)i << 2 | (1 + i / 100 % 2));
	}
}

/* ---- reading ---- */

struct seen {
	struct tvx_entry *en;
	size_t n, cap;
};

static int keep(void *arg, const struct tvx_entry *en)
{
	struct seen *s = arg;

	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		s->en = xrealloc(s->en, s->cap * sizeof(*s->en));
	}
	s->en[s->n++] = *en;
	return 0;
}

#define LINE_PS 1000000 /* of write_line()'s timestamp */

static int64_t end_of(int64_t start, int64_t length)
{
	return start + (length ? length : 1);
}

static bool overlaps(const struct one *o, const struct tvx_window *w)
{
	return o->start + LINE_PS < w->to_ps && end_of(o->start, o->length) + LINE_PS > w->from_ps;
}

static int by_start(const void *a, const void *b)
{
	const struct one *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->length != y->length)
		return x->length < y->length ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* The entries that are one event of 2^shift ps or more, as what is true. */
static size_t long_ones(const struct tvx *x, const struct seen *s, unsigned int shift,
			struct one *out)
{
	size_t n = 0, len;

	for (size_t i = 0; i < s->n; i++) {
		const struct tvx_entry *en = &s->en[i];

		if (en->longest_ps >> shift == 0)
			continue;
		CHECK_EQ(en->count, 1);
		CHECK_EQ(en->length_ps, en->longest_ps);
		out[n++] = (struct one){ en->start_ps - LINE_PS, (int64_t)en->length_ps,
					 (unsigned int)strtoul(tvx_name(x, en->name, &len) +
								       strlen("event "),
							       NULL, 10),
					 0 };
	}
	qsort(out, n, sizeof(*out), by_start);
	return n;
}

static void check_window(const struct tvx *x, uint32_t track, const struct truth *t,
			 const struct tvx_window *w)
{
	static struct one got[TRUE_MAX], want[TRUE_MAX];
	struct seen s = { 0 };
	struct err e;
	size_t n = 0, n_got;

	CHECK_OK(tvx_query(x, track, w, keep, &s, &e), e);
	for (size_t i = 0; i < t->n; i++) {
		if (overlaps(&t->ev[i], w) && t->ev[i].length >> w->shift)
			want[n++] = t->ev[i];
	}
	qsort(want, n, sizeof(*want), by_start);
	n_got = long_ones(x, &s, w->shift, got);
	CHECK_EQ(n_got, n);
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(got[i].start, want[i].start);
		CHECK_EQ(got[i].length, want[i].length);
		CHECK_EQ(got[i].name, want[i].name);
	}
	free(s.en);
}

/* Nothing is left out, whatever the zoom; a row has at most two entries for each 2^shift ps. */
static void check_whole(const struct tvx *x, uint32_t track, const struct truth *t,
			unsigned int shift)
{
	const struct tvx_window w = { .from_ps = INT64_MIN / 4,
				      .to_ps = INT64_MAX / 4,
				      .shift = shift };
	const struct tvx_track *tracks;
	uint64_t count = 0, busy = 0, want = 0;
	struct seen s = { 0 };
	int64_t *ends;
	struct err e;

	CHECK_OK(tvx_query(x, track, &w, keep, &s, &e), e);
	tvx_tracks(x, &tracks);
	ends = xcalloc(tracks[track].rows + 1, sizeof(*ends));
	for (uint32_t i = 0; i < tracks[track].rows; i++)
		ends[i] = INT64_MIN;
	for (size_t i = 0; i < s.n; i++) {
		const struct tvx_entry *en = &s.en[i];

		count += en->count;
		busy += en->busy_ps;
		CHECK(en->row < tracks[track].rows);
		CHECK(!i || en->start_ps >= en[-1].start_ps);
		CHECK(en->start_ps >= ends[en->row]); /* entries of a row do not overlap */
		ends[en->row] = end_of(en->start_ps, (int64_t)en->length_ps);
	}
	for (size_t i = 0; i < t->n; i++)
		want += (uint64_t)t->ev[i].length;
	CHECK_EQ(count, t->n);
	CHECK_EQ(busy, want);
	free(ends);
	free(s.en);
}

static void check_windows(const struct tvx *x, uint32_t track, const struct truth *t)
{
	for (unsigned int shift = 0; shift <= 44; shift += 1)
		check_whole(x, track, t, shift);
	for (int i = 0; i < 300 && t->n; i++) {
		const struct one *o = &t->ev[draw(t->n)];
		unsigned int shift = (unsigned int)draw(36);
		int64_t half = 1 + (int64_t)draw((uint64_t)512 << shift);
		struct tvx_window w = { .from_ps = o->start + LINE_PS - half,
					.to_ps = o->start + LINE_PS + half,
					.shift = draw(4) ? shift : 0 };

		check_window(x, track, t, &w);
	}
}

/* ---- details, totals, flows ---- */

struct stats {
	uint64_t number;
	char kind[16];
	bool has_number;
};

static void on_stat(void *arg, const char *key, size_t len, const struct xs_stat *s)
{
	struct stats *out = arg;

	if (len == 6 && !memcmp(key, "number", 6)) {
		out->number = s->u;
		out->has_number = true;
	} else if (len == 4 && !memcmp(key, "kind", 4)) {
		CHECK_EQ(s->kind, XS_STR);
		snprintf(out->kind, sizeof(out->kind), "%.*s", (int)s->len, (const char *)s->bytes);
	}
}

static void check_details(const struct tvx *x, const struct xs_source *in, uint32_t track,
			  const struct truth *t)
{
	struct tvx_entry en;
	struct err e;

	CHECK_EQ(tvx_event(x, track, t->n, &en, &e), ERR_NOT_FOUND);
	for (int i = 0; i < 50 && t->n; i++) {
		struct tvx_detail d = { BUF_INIT, BUF_INIT };
		uint64_t event = i ? draw(t->n) : t->n - 1;
		struct stats s = { 0 };
		char name[32];

		CHECK_OK(tvx_event(x, track, event, &en, &e), e);
		CHECK_EQ(en.event, event);
		CHECK_OK(tvx_detail(x, in, track, &en, &d, on_stat, &s, &e), e);
		CHECK(s.has_number && s.number < t->n);
		CHECK_EQ(t->ev[s.number].start + LINE_PS, en.start_ps);
		CHECK_EQ(t->ev[s.number].length, en.length_ps);
		CHECK_STR(s.kind, en.length_ps ? "long" : "instant");
		snprintf(name, sizeof(name), "event %u", t->ev[s.number].name);
		CHECK_STR(buf_str(&d.name), name);
		buf_release(&d.name);
		buf_release(&d.display_name);
	}
}

static void check_totals(const struct tvx *x, uint32_t track, const struct truth *t)
{
	uint64_t count[NAMES] = { 0 }, sum[NAMES] = { 0 }, least[NAMES], most[NAMES] = { 0 };
	int64_t first[NAMES], last[NAMES];
	const struct tvx_track *tracks;
	const struct tvx_total *totals;
	size_t len;

	tvx_tracks(x, &tracks);
	tvx_totals(x, &totals);
	for (size_t i = 0; i < t->n; i++) {
		unsigned int name = t->ev[i].name;
		uint64_t length = (uint64_t)t->ev[i].length;
		bool is_first = !count[name]++;

		sum[name] += length;
		least[name] = is_first || length < least[name] ? length : least[name];
		most[name] = length > most[name] ? length : most[name];
		first[name] = is_first || t->ev[i].start < first[name] ? t->ev[i].start
								       : first[name];
		last[name] = is_first || t->ev[i].start > last[name] ? t->ev[i].start : last[name];
	}
	for (uint32_t i = 0; i < tracks[track].n_totals; i++) {
		const struct tvx_total *total = &totals[tracks[track].total0 + i];
		unsigned long name = strtoul(tvx_name(x, total->name, &len) + strlen("event "),
					     NULL, 10);

		CHECK_EQ(total->track, track);
		CHECK_EQ(total->count, count[name]);
		CHECK_EQ(total->total_ps, sum[name]);
		CHECK_EQ(total->min_ps, least[name]);
		CHECK_EQ(total->max_ps, most[name]);
		CHECK_EQ(total->first_ps, first[name] + LINE_PS);
		CHECK_EQ(total->last_ps, last[name] + LINE_PS);
		count[name] = 0;
	}
	for (int i = 0; i < NAMES; i++)
		CHECK_EQ(count[i], 0);
}

static void check_flows(const struct tvx *x, const struct truth *lines, size_t n)
{
	const struct tvx_flow *ends;
	struct tvx_entry en;
	struct err e;

	for (size_t id = 7; id < 700; id += 100) {
		size_t want = 0, got = tvx_flow_ends(x, id, &ends);

		for (size_t i = 0; i < n; i++)
			want += lines[i].n > id;
		CHECK_EQ(got, want);
		for (size_t i = 0; i < got; i++) {
			CHECK_EQ(ends[i].direction, 1 + id / 100 % 2);
			CHECK_OK(tvx_event(x, ends[i].track, ends[i].event, &en, &e), e);
			CHECK(en.start_ps == lines[ends[i].track].ev[id].start + LINE_PS);
		}
	}
	CHECK_EQ(tvx_flow_ends(x, 8, &ends), 0);
}

/* ---- the tests ---- */

static struct truth lines[ARRAY_SIZE(makers)];

static void make_space(struct buf *out)
{
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 3, "/host:CPU");
	for (size_t i = 0; i < ARRAY_SIZE(makers); i++) {
		makers[i](&lines[i]);
		write_line(b, &lines[i], (int)i);
	}
	xs_plane(b, 4, "/host:CPU metrics");
	xs_line(b, 0, "_counters_", 0);
	for (int i = 0; i < 3000; i++) {
		xs_event(b, i % 2 ? "odd" : "even", 1000 * i, 0);
		xs_stat_double(b, "value", i % 2 ? 0.5 * i : -i);
	}
	xs_finish(b, out);
	xs_builder_free(b);
}

static void build(const struct buf *space, size_t held_events, struct buf *out)
{
	const struct tvx_build how = { .held_events = held_events };
	struct xs_source in = xs_source_memory(space->data, space->len);
	struct xs_sink sink = xs_sink_buf(out);
	struct err e;

	CHECK_OK(tvx_build(&in, &how, &sink, &e), e);
}

static void test_events(const struct tvx *x, const struct buf *space)
{
	struct xs_source in = xs_source_memory(space->data, space->len);
	const struct tvx_track *tracks;

	CHECK_EQ(tvx_tracks(x, &tracks), ARRAY_SIZE(makers) + 2);
	for (uint32_t i = 0; i < ARRAY_SIZE(makers); i++) {
		CHECK_EQ(tracks[i].events, lines[i].n);
		CHECK_EQ(tracks[i].kind, TVX_EVENTS);
		check_windows(x, i, &lines[i]);
		check_details(x, &in, i, &lines[i]);
		check_totals(x, i, &lines[i]);
	}
	CHECK(tracks[0].n_levels >= 2 && tracks[3].n_levels == 1);
	check_flows(x, lines, ARRAY_SIZE(makers));
}

static void test_counters(const struct tvx *x)
{
	const struct tvx_window w = { .from_ps = 500500, .to_ps = 510000 };
	uint32_t track = ARRAY_SIZE(makers);
	const struct tvx_track *tracks;
	struct seen s = { 0 };
	struct err e;
	double value;
	size_t len;

	tvx_tracks(x, &tracks);
	CHECK(!memcmp(tvx_name(x, tracks[track].name, &len), "even", 4));
	CHECK_EQ(tracks[track].kind, TVX_COUNTER);
	CHECK_EQ(tracks[track].events, 1500);
	CHECK(tracks[track].min == -2998 && tracks[track].max == 0);
	CHECK_OK(tvx_query(x, track, &w, keep, &s, &e), e);
	CHECK_EQ(s.n, 5); /* 500 before the window; 502 to 508; 510 is outside */
	for (size_t i = 0; i < 5; i++) {
		memcpy(&value, &s.en[i].busy_ps, sizeof(value));
		CHECK(value == -500 - 2 * (double)i);
	}
	free(s.en);
}

/* All entries of all tracks, at some zooms. */
static int read_all(const struct tvx *x, struct seen *s, struct err *e)
{
	const struct tvx_track *tracks;
	size_t n = tvx_tracks(x, &tracks);
	int rc = 0;

	s->n = 0;
	for (uint32_t t = 0; !rc && t < n; t++) {
		for (unsigned int shift = 0; !rc && shift < 45; shift += 9) {
			const struct tvx_window w = { INT64_MIN / 4, INT64_MAX / 4, shift, 0 };

			rc = tvx_query(x, t, &w, keep, s, e);
		}
	}
	return rc;
}

static void read_events(const struct tvx *x, uint32_t track, struct seen *s)
{
	const struct tvx_window w = { INT64_MIN / 4, INT64_MAX / 4, 0, 0 };
	struct err e;

	s->n = 0;
	CHECK_OK(tvx_query(x, track, &w, keep, s, &e), e);
}

/* Lines that are longer than what is held at once, read in passes, give the same events in the same rows. */
static void test_passes(const struct buf *space, const struct tvx *x, size_t held_events)
{
	struct seen want = { 0 }, got = { 0 };
	const struct tvx_track *tracks;
	struct buf index = BUF_INIT;
	size_t n = tvx_tracks(x, &tracks);
	struct tvx *y;
	struct err e;

	build(space, held_events, &index);
	CHECK_OK(tvx_open(&y, index.data, index.len, space->len, &e), e);
	CHECK_EQ(tvx_tracks(y, &tracks), n);
	for (uint32_t t = 0; t < n; t++) {
		read_events(x, t, &want);
		read_events(y, t, &got);
		CHECK_EQ(got.n, want.n);
		CHECK(!memcmp(got.en, want.en, got.n * sizeof(*got.en)));
		if (t >= ARRAY_SIZE(makers))
			continue;
		check_totals(y, t, &lines[t]);
		for (unsigned int shift = 0; shift <= 44; shift += 11)
			check_whole(y, t, &lines[t], shift);
	}
	check_flows(y, lines, ARRAY_SIZE(makers));
	tvx_close(y);
	buf_release(&index);
	free(want.en);
	free(got.en);
}

/* A wrong byte is an error, or it is one that nothing refers to. */
static void test_damage(const struct buf *index, uint64_t source_bytes)
{
	uint8_t *copy = xmalloc(index->len);
	struct seen want = { 0 }, got = { 0 };
	int found = 0;
	struct tvx *x;
	struct err e;

	CHECK_EQ(tvx_open(&x, index->data, index->len, source_bytes + 1, &e), ERR_INVALID);
	CHECK_EQ(tvx_open(&x, index->data, 10, source_bytes, &e), ERR_INVALID);
	CHECK_OK(tvx_open(&x, index->data, index->len, source_bytes, &e), e);
	CHECK_OK(read_all(x, &want, &e), e);
	tvx_close(x);
	for (int i = 0; i < 40; i++) {
		memcpy(copy, index->data, index->len);
		copy[draw(index->len)] ^= (uint8_t)(1 << draw(8));
		if (!tvx_open(&x, copy, index->len, source_bytes, &e)) {
			if (!read_all(x, &got, &e))
				CHECK(got.n == want.n &&
				      !memcmp(got.en, want.en, got.n * sizeof(*got.en)));
			tvx_close(x);
		}
		found += e.code == ERR_INVALID || e.code == ERR_IO;
		e.code = 0;
	}
	CHECK(found > 20);
	free(copy);
	free(want.en);
	free(got.en);
}

/* ---- parts ---- */

struct parts {
	const struct buf *out; /* what the sink has been given */
	const struct tvx *whole;
	uint64_t source_bytes;
	size_t n, tracks; /* parts seen, and the tracks of the last one */
};

/* A part's tracks are those of the whole index, as far as they go. */
static int check_part(void *arg, const struct tvx_writer *w, struct err *e)
{
	struct seen want = { 0 }, got = { 0 };
	const struct tvx_track *tracks;
	const struct tvx_flow *ends;
	struct parts *p = arg;
	struct buf tables = BUF_INIT;
	uint64_t blocks_len;
	struct tvx *x;
	size_t n;

	CHECK_OK(tvx_write_part(w, &tables, &blocks_len, e), *e);
	CHECK(blocks_len <= p->out->len);
	CHECK_EQ(tvx_open_part(&x, p->out->data, blocks_len - 1, tables.data, tables.len,
			       p->source_bytes, e),
		 ERR_INVALID);
	CHECK_OK(tvx_open_part(&x, p->out->data, blocks_len, tables.data, tables.len,
			       p->source_bytes, e),
		 *e);
	n = tvx_tracks(x, &tracks);
	CHECK(n > p->tracks);
	for (uint32_t t = 0; t < n; t++) {
		read_events(p->whole, t, &want);
		read_events(x, t, &got);
		CHECK_EQ(got.n, want.n);
		CHECK(!got.n || !memcmp(got.en, want.en, got.n * sizeof(*got.en)));
		if (t >= p->tracks && t < ARRAY_SIZE(makers)) {
			check_totals(x, t, &lines[t]);
			check_windows(x, t, &lines[t]);
		}
	}
	CHECK_EQ(tvx_flow_ends(x, 1, &ends), 0);
	p->n++;
	p->tracks = n;
	tvx_close(x);
	buf_release(&tables);
	free(want.en);
	free(got.en);
	return 0;
}

static void test_parts(const struct buf *space, const struct buf *index, const struct tvx *whole)
{
	struct xs_source in = xs_source_memory(space->data, space->len);
	struct buf out = BUF_INIT;
	struct parts p = { .out = &out, .whole = whole, .source_bytes = space->len };
	const struct tvx_build how = { .on_line = check_part, .arg = &p };
	struct xs_sink sink = xs_sink_buf(&out);
	struct err e;

	CHECK_OK(tvx_build(&in, &how, &sink, &e), e);
	CHECK_EQ(p.n, ARRAY_SIZE(makers) + 1);
	CHECK(out.len == index->len && !memcmp(out.data, index->data, out.len));
	buf_release(&out);
}

static bool never(void *arg, uint64_t done)
{
	(void)arg;
	(void)done;
	return false;
}

static void test_stop(const struct buf *space)
{
	struct xs_source in = xs_source_memory(space->data, space->len);
	const struct tvx_build how = { .go_on = never };
	struct buf out = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out);
	struct err e;

	CHECK_EQ(tvx_build(&in, &how, &sink, &e), ERR_CANCELLED);
	in.size -= 100;
	CHECK_EQ(tvx_build(&in, NULL, &sink, &e), ERR_INVALID);
	buf_release(&out);
}

/* A tag may have more bytes than it needs. */
static void test_long_tags(void)
{
	static const uint8_t bytes[] = { 0x0a, 13, /* a plane */
					 0x1a, 11, /* a line */
					 0x22, 9, /* an event: metadata 1, at 5, of 7 ps */
					 0x88, 0,  1, 0x90, 0x80, 0, 5, 0x18, 7 };
	struct buf space = BUF_INIT, index = BUF_INIT;
	struct tvx_entry en;
	struct tvx *x;
	struct err e;

	buf_add(&space, bytes, sizeof(bytes));
	build(&space, 0, &index);
	CHECK_OK(tvx_open(&x, index.data, index.len, space.len, &e), e);
	CHECK_OK(tvx_event(x, 0, 0, &en, &e), e);
	CHECK_EQ(en.start_ps, 5);
	CHECK_EQ(en.length_ps, 7);
	tvx_close(x);
	buf_release(&space);
	buf_release(&index);
}

static int read_bytes(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct buf *space = arg;

	(void)e;
	memcpy(buf, space->data + offset, len);
	return 0;
}

static void count_stat(void *arg, const char *key, size_t key_len, const struct xs_stat *s)
{
	unsigned int *n = arg;

	CHECK_EQ(key_len, 3);
	CHECK(!memcmp(key, "hlo", 3));
	CHECK_EQ(s->len, TVX_TEXT_MAX);
	++*n;
}

/* A name and values that are longer than what is read in one piece, as the HLO of a large program is. */
static void test_long_texts(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf space = BUF_INIT, index = BUF_INIT;
	struct tvx_detail d = { BUF_INIT, BUF_INIT };
	size_t len = XS_MAX_SPAN + (size_t)1;
	char *text = xmalloc(len + 1);
	struct xs_source in;
	struct tvx_entry en;
	unsigned int n = 0;
	struct tvx *x;
	struct err e;

	memset(text, 'x', len);
	text[len] = '\0';
	xs_plane(b, 1, "p");
	xs_line(b, 1, "l", 0);
	xs_event(b, text, 0, 1);
	xs_stat_str(b, "hlo", text);
	xs_finish(b, &space);
	xs_builder_free(b);
	free(text);
	build(&space, 0, &index);
	in = (struct xs_source){ .read = read_bytes, .arg = &space, .size = space.len };
	CHECK_OK(tvx_open(&x, index.data, index.len, space.len, &e), e);
	CHECK_OK(tvx_event(x, 0, 0, &en, &e), e);
	CHECK_OK(tvx_detail(x, &in, 0, &en, &d, count_stat, &n, &e), e);
	CHECK_EQ(d.name.len, TVX_TEXT_MAX);
	CHECK_EQ(n, 1);
	tvx_close(x);
	buf_release(&d.name);
	buf_release(&d.display_name);
	buf_release(&space);
	buf_release(&index);
}

int main(void)
{
	struct buf space = BUF_INIT, index = BUF_INIT;
	struct tvx *x;
	struct err e;

	make_space(&space);
	build(&space, 0, &index);
	CHECK_OK(tvx_open(&x, index.data, index.len, space.len, &e), e);
	test_events(x, &space);
	test_counters(x);
	test_passes(&space, x, 1500);
	test_parts(&space, &index, x);
	tvx_close(x);
	test_damage(&index, space.len);
	test_stop(&space);
	test_long_tags();
	test_long_texts();
	buf_release(&space);
	buf_release(&index);
	return 0;
}
