/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters in tiles, against all samples: at each zoom, a bucket has the least, the largest and the last of its samples, so that
 * no spike vanishes. The bytes are read as docs/viewer.md has them.
 */
#include <math.h>
#include <stdlib.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "xspace/tvx/tvx.h"
#include "xspace/xspace.h"

#define COUNTERS 5
#define SAMPLES	 4000
#define LINE_NS	 1000

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 16) % below;
}

/* ---- what is true ---- */

static struct samples {
	int64_t ps[SAMPLES]; /* ascending */
	double value[SAMPLES];
	size_t n;
} counters[COUNTERS];

/* A walk with rare spikes in either direction; one counter rises, one falls, one is far below zero, one is hardly there. */
static double next_value(int counter, double before, size_t i)
{
	double step = (double)draw(2001) / 1000 - 1;

	switch (counter) {
	case 0:
		return draw(100) ? before + step : before + (draw(2) ? 1e4 : -1e4);
	case 1:
		return (double)i + step;
	case 2:
		return -(double)i - step;
	case 3:
		return -1e12 + 1e9 * step;
	default:
		return draw(50) ? -7 : draw(2) ? 1e30 : -1e-30;
	}
}

static void make_samples(void)
{
	for (int c = 0; c < COUNTERS; c++) {
		struct samples *s = &counters[c];
		int64_t at = LINE_NS * 1000 + (int64_t)draw(100000);
		double value = 0;

		s->n = c == 4 ? 300 : SAMPLES;
		for (size_t i = 0; i < s->n; i++) {
			at += 1 + (int64_t)draw(draw(40) ? 2000 : 3000000);
			value = next_value(c, value, i);
			s->ps[i] = at;
			s->value[i] = value;
		}
	}
}

/* Sample by sample of all counters at once, as a tracer writes them: not in order of time. */
static void write_space(struct buf *out)
{
	static const char *const names[COUNTERS] = { "walk", "up", "down", "far", "rare" };
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 1, "/host:CPU metrics");
	xs_line(b, 0, "_counters_", LINE_NS);
	for (size_t i = 0; i < SAMPLES; i++) {
		for (int c = 0; c < COUNTERS; c++) {
			if (i >= counters[c].n)
				continue;
			xs_event(b, names[c], counters[c].ps[i] - LINE_NS * 1000, 0);
			xs_stat_double(b, "value", counters[c].value[i]);
		}
	}
	xs_finish(b, out);
	xs_builder_free(b);
}

/* ---- reading a tile ---- */

struct reader {
	const uint8_t *at, *end;
};

static uint32_t read_number(struct reader *r)
{
	uint32_t v = 0;

	for (int shift = 0;; shift += 7) {
		CHECK(r->at < r->end && shift < 35);
		v |= (uint32_t)(*r->at & 0x7f) << shift;
		if (!(*r->at++ & 0x80))
			return v;
	}
}

static uint32_t read_difference(struct reader *r)
{
	uint32_t v = read_number(r);

	return v >> 1 ^ -(v & 1);
}

struct entry {
	int32_t start;
	uint32_t least, largest, last, count; /* the first three as bits of floats */
};

static struct tile {
	uint32_t ends[TILE_TRACKS], n;
	struct entry entries[COUNTERS * (SAMPLES + 1)];
} tile;

static void read_tile(const struct buf *bytes)
{
	struct reader r = { bytes->data, bytes->data + bytes->len };
	uint32_t head[4];

	CHECK(bytes->len > sizeof(head));
	memcpy(head, r.at, sizeof(head));
	r.at += sizeof(head);
	CHECK_EQ(head[1], COUNTERS);
	CHECK_EQ(head[3], 0); /* counters need no names of events */
	tile.n = head[2];
	CHECK(tile.n <= ARRAY_SIZE(tile.entries));
	memcpy(tile.ends, r.at, COUNTERS * sizeof(tile.ends[0]));
	r.at += COUNTERS * sizeof(tile.ends[0]);
	CHECK_EQ(tile.ends[COUNTERS - 1], tile.n);
	for (uint32_t t = 0, i = 0; t < COUNTERS; t++)
		for (uint32_t before = 0; i < tile.ends[t]; i++)
			tile.entries[i].start = (int32_t)(before += read_difference(&r));
	for (uint32_t i = 0; i < tile.n; i++)
		tile.entries[i].least = read_number(&r);
	for (uint32_t i = 0; i < tile.n; i++)
		tile.entries[i].largest = read_number(&r);
	for (uint32_t t = 0, i = 0; t < COUNTERS; t++)
		for (uint32_t before = 0; i < tile.ends[t]; i++)
			tile.entries[i].last = before += read_difference(&r);
	for (uint32_t i = 0; i < tile.n; i++)
		tile.entries[i].count = read_number(&r);
}

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* ---- against all samples ---- */

static float as_shown(double value)
{
	return isfinite(value) ? (float)value : 0;
}

/* The samples of [i, n) that begin before `to_ps`, in the bucket of the i-th, as one entry; returns how many. */
static size_t check_bucket(const struct samples *s, size_t i, size_t n, unsigned int shift,
			   const struct entry *en)
{
	float least = as_shown(s->value[i]), largest = least, last = least;
	int64_t bucket = s->ps[i] >> shift;
	size_t k = i + 1;

	for (; k < n && s->ps[k] >> shift == bucket; k++) {
		last = as_shown(s->value[k]);
		least = last < least ? last : least;
		largest = last > largest ? last : largest;
	}
	CHECK(float_of(en->least) == least);
	CHECK(float_of(en->largest) == largest);
	CHECK(float_of(en->last) == last);
	CHECK_EQ(en->count, k - i);
	return k - i;
}

static void check_track(const struct samples *s, unsigned int shift, int64_t from_ps, int64_t to_ps,
			const struct entry *en, size_t n_entries)
{
	unsigned int unit = shift > 8 ? shift - 8 : 0;
	const struct entry *end = en + n_entries;
	size_t first = 0, n;

	while (first < s->n && s->ps[first] < from_ps)
		first++;
	n = first;
	while (n < s->n && s->ps[n] < to_ps)
		n++;
	if (first) { /* the value that holds at the tile's begin */
		CHECK(en < end && en->start < 0);
		check_bucket(s, first - 1, first, shift, en++);
	}
	while (first < n) {
		CHECK(en < end);
		CHECK_EQ(en->start, (s->ps[first] - from_ps) >> unit);
		first += check_bucket(s, first, n, shift, en++);
	}
	CHECK(en == end);
}

static void check_zoom(const struct view *view, unsigned int shift)
{
	int64_t tile_ps = (int64_t)TILE_BUCKETS << shift, last_ps = 0;
	struct err e;

	for (int c = 0; c < COUNTERS; c++)
		last_ps = counters[c].ps[counters[c].n - 1] > last_ps
				  ? counters[c].ps[counters[c].n - 1]
				  : last_ps;
	/* of the finest zooms not all tiles */
	for (int64_t i = -1, step = 1 + last_ps / tile_ps / 200; i <= last_ps / tile_ps + 1;
	     i += step) {
		const struct view_tile t = { .shift = shift, .index = i };
		struct buf bytes = BUF_INIT;

		CHECK_OK(view_write_tile(view, &t, &bytes, &e), e);
		read_tile(&bytes);
		for (uint32_t c = 0, before = 0; c < COUNTERS; before = tile.ends[c++])
			check_track(&counters[c], shift, i * tile_ps, (i + 1) * tile_ps,
				    tile.entries + before, tile.ends[c] - before);
		buf_release(&bytes);
	}
}

/* What the catalogue says of a counter as a whole, in doubles. */
static void check_extremes(const struct tvx *x)
{
	const struct tvx_track *tracks;

	CHECK_EQ(tvx_tracks(x, &tracks), COUNTERS);
	for (int c = 0; c < COUNTERS; c++) {
		const struct samples *s = &counters[c];
		double least = s->value[0], largest = s->value[0];

		for (size_t i = 1; i < s->n; i++) {
			least = s->value[i] < least ? s->value[i] : least;
			largest = s->value[i] > largest ? s->value[i] : largest;
		}
		CHECK_EQ(tracks[c].kind, TVX_COUNTER);
		CHECK_EQ(tracks[c].events, s->n);
		CHECK(tracks[c].min == least && tracks[c].max == largest);
		CHECK_EQ(tracks[c].first_ps, s->ps[0]);
	}
}

int main(void)
{
	struct buf space = BUF_INIT, index = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&index);
	struct view_file file = { .fd = -1 };
	struct view view = { .files = &file, .n_files = 1 };
	struct xs_source in;
	struct err e;

	make_samples();
	write_space(&space);
	in = xs_source_memory(space.data, space.len);
	CHECK_OK(tvx_build(&in, NULL, &sink, &e), e);
	CHECK_OK(tvx_open(&file.x, index.data, index.len, space.len, &e), e);
	check_extremes(file.x);
	for (unsigned int shift = 0; shift <= 40; shift++)
		check_zoom(&view, shift);
	tvx_close(file.x);
	buf_release(&space);
	buf_release(&index);
	return 0;
}
