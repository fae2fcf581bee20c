/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles, read as docs/viewer.md has their bytes. */
#include "aggregator/views/queries.h"

#include <math.h>

#include "base/mem.h"
#include "tests/unit/aggregator/views/session.h"

struct tile {
	uint32_t n_tracks, n, n_names, ends[TILE_TRACKS];
	struct shown {
		int32_t start;
		uint32_t length, name, event, count, row;
		uint8_t busy;
	} * items;
	char (*names)[200];
};

struct bytes {
	const uint8_t *p, *end;
};

static uint32_t take_word(struct bytes *b)
{
	uint32_t v;

	CHECK(b->end - b->p >= 4);
	memcpy(&v, b->p, 4);
	b->p += 4;
	return v;
}

static uint32_t take_number(struct bytes *b)
{
	uint32_t v = 0;
	int shift = 0;

	do {
		CHECK(b->p < b->end && shift < 35);
		v |= (uint32_t)(*b->p & 0x7f) << shift;
		shift += 7;
	} while (*b->p++ & 0x80);
	return v;
}

/* 0, -1, 1, -2, ... */
static uint32_t take_difference(struct bytes *b)
{
	uint32_t v = take_number(b);

	return v & 1 ? ~(v >> 1) : v >> 1;
}

static void take_names(struct tile *t, struct bytes *b)
{
	uint32_t(*lengths)[2] = xcalloc(t->n_names + 1, sizeof(*lengths));

	t->names = xcalloc(t->n_names + 1, sizeof(*t->names));
	for (uint32_t i = 0; i < t->n_names; i++)
		for (int k = 0; k < 2; k++)
			lengths[i][k] = take_number(b);
	for (uint32_t i = 0; i < t->n_names; i++) {
		CHECK(lengths[i][0] + lengths[i][1] < sizeof(t->names[0]) &&
		      b->end - b->p >= (long)lengths[i][1]);
		if (i)
			memcpy(t->names[i], t->names[i - 1], lengths[i][0]);
		for (uint32_t k = 0; k < lengths[i][0]; k++) /* characters and bytes are the same */
			CHECK((uint8_t)t->names[i][k] && (uint8_t)t->names[i][k] < 0x80);
		memcpy(t->names[i] + lengths[i][0], b->p, lengths[i][1]);
		b->p += lengths[i][1];
	}
	free(lengths);
}

/* As docs/viewer.md has the bytes. */
static struct tile read_tile(const struct buf *out)
{
	struct bytes b = { out->data, out->data + out->len };
	struct tile t;

	CHECK_EQ(take_word(&b), 0x32545654); /* TVT2 */
	t.n_tracks = take_word(&b);
	t.n = take_word(&b);
	t.n_names = take_word(&b);
	CHECK(t.n_tracks <= TILE_TRACKS);
	for (uint32_t i = 0; i < t.n_tracks; i++)
		t.ends[i] = take_word(&b);
	CHECK_EQ(t.ends[t.n_tracks - 1], t.n);
	t.items = xcalloc(t.n + 1, sizeof(*t.items));
	for (uint32_t i = 0, k = 0, before = 0; i < t.n_tracks; i++, before = 0)
		for (; k < t.ends[i]; k++)
			before = (uint32_t)(t.items[k].start = (int32_t)(before +
									 take_difference(&b)));
	for (uint32_t k = 0; k < t.n; k++)
		t.items[k].length = take_number(&b);
	for (uint32_t k = 0; k < t.n; k++)
		t.items[k].name = take_number(&b);
	for (uint32_t i = 0, k = 0, before = 0; i < t.n_tracks; i++, before = 0)
		for (; k < t.ends[i]; k++)
			before = t.items[k].event = before + take_difference(&b);
	for (uint32_t k = 0; k < t.n; k++)
		t.items[k].count = take_number(&b);
	for (uint32_t k = 0; k < t.n; k++)
		t.items[k].row = take_number(&b);
	for (uint32_t k = 0; k < t.n; k++)
		if (t.items[k].count > 1) {
			CHECK(b.p < b.end);
			t.items[k].busy = *b.p++;
		}
	take_names(&t, &b);
	CHECK(b.p == b.end);
	return t;
}

static struct tile get_tile(const struct view *view, struct view_tile what)
{
	struct buf out = BUF_INIT;
	struct tile t;
	struct err e;

	CHECK_OK(view_write_tile(view, &what, &out, &e), e);
	t = read_tile(&out);
	buf_release(&out);
	return t;
}

static void tile_free(struct tile *t)
{
	free(t->items);
	free(t->names);
}

static void check_shown(const struct tile *t, uint32_t i, int32_t start, uint32_t length,
			const char *name, uint32_t event, uint32_t count, uint32_t row)
{
	const struct shown *s = &t->items[i];

	CHECK(i < t->n);
	CHECK_EQ(s->start, start);
	CHECK_EQ(s->length, length);
	CHECK_STR(t->names[s->name], name);
	CHECK_EQ(s->event, event);
	CHECK_EQ(s->count, count);
	CHECK_EQ(s->row, row);
}

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, 4);
	return f;
}

static void check_sample(const struct tile *t, uint32_t i, int32_t start, float least,
			 float largest, float last, uint32_t count)
{
	CHECK(i < t->n);
	CHECK_EQ(t->items[i].start, start);
	CHECK(float_of(t->items[i].length) == least);
	CHECK(float_of(t->items[i].name) == largest);
	CHECK(float_of(t->items[i].event) == last);
	CHECK_EQ(t->items[i].count, count);
	CHECK_EQ(t->items[i].row, 0);
}

static void test_tile(const struct view *view)
{
	struct tile t = get_tile(view, (struct view_tile){ .file = 0, .shift = 0, .index = 0 });

	CHECK_EQ(t.n_tracks, 2);
	CHECK_EQ(t.ends[0], 4);
	CHECK_EQ(t.n_names, 4);
	check_shown(&t, 0, 0, 1000, "step", 0, 1, 0);
	check_shown(&t, 1, 100, 200, "load", 1, 1, 1);
	check_shown(&t, 2, 300, 600, "matmul", 2, 1, 1);
	check_shown(&t, 3, 400, 100, "copy", 3, 1, 2);
	check_sample(&t, 4, 0, 1.5, 1.5, 1.5, 1);
	check_sample(&t, 5, 300, -2.5, -2.5, -2.5, 1);
	CHECK_EQ(t.n, 8);
	tile_free(&t);
	/* the third tile of 1,024 ps: the second step crosses its begin */
	t = get_tile(view, (struct view_tile){ .file = 0, .shift = 0, .index = 2, .rows = 1 });
	CHECK_EQ(t.ends[0], 2);
	check_shown(&t, 0, 2000 - 2048, 1000, "step", 4, 1, 0);
	check_shown(&t, 1, 3000 - 2048, 0, "mark", 6, 1, 0);
	check_sample(&t, 2, 1100 - 2048, 3, 3, 3, 1); /* the one before the tile */
	CHECK_EQ(t.n, 3);
	tile_free(&t);
	/* buckets of 1,024 ps; positions are of 4 ps */
	t = get_tile(view, (struct view_tile){ .file = 0, .shift = 10, .index = 0 });
	check_sample(&t, t.ends[0], 0, -2.5, 7, 4, 4);
	check_sample(&t, t.ends[0] + 1, 1100 / 4, 3, 3, 3, 1);
	CHECK_EQ(t.n, t.ends[0] + 2);
	tile_free(&t);
	t = get_tile(view, (struct view_tile){ .file = 1, .shift = 8, .index = 0 });
	CHECK_EQ(t.n, 2);
	check_shown(&t, 0, 450, 700, "kernel", 0, 1, 0);
	check_shown(&t, 1, 1500, 10, "copy", 1, 1, 0);
	tile_free(&t);
}

static void test_no_tile(const struct view *view)
{
	static const struct {
		struct view_tile what;
		int rc;
	} rows[] = {
		{ { .file = 3 }, ERR_NOT_FOUND },
		{ { .file = 0, .group = 1 }, ERR_NOT_FOUND },
		{ { .file = 0, .group = 1u << 28 },
		  ERR_NOT_FOUND }, /* its first track is 0 in 32 bits */
		{ { .file = 0, .shift = 51 }, ERR_INVALID },
		{ { .file = 0, .shift = 50, .index = 1 }, 0 },
		{ { .file = 0, .shift = 50, .index = 2 }, ERR_INVALID },
		{ { .file = 0, .shift = 50, .index = -2 }, 0 },
		{ { .file = 0, .shift = 50, .index = -3 }, ERR_INVALID },
		{ { .file = 0, .shift = 0, .index = INT64_C(1) << 50 }, 0 },
		{ { .file = 0, .shift = 0, .index = (INT64_C(1) << 50) + 1 }, ERR_INVALID },
		{ { .file = 0, .shift = 0, .index = INT64_MIN }, ERR_INVALID },
	};
	struct buf out = BUF_INIT;
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		buf_reset(&out);
		CHECK_EQ(view_write_tile(view, &rows[i].what, &out, &e), rows[i].rc);
		CHECK_EQ(!out.len, !!rows[i].rc);
	}
	buf_release(&out);
}

/* ---- a session of tiles: folds, many tracks, many rows, names ---- */

#define LONG_NAME \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567" \
	"890123456789" \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567" \
	"890123456789"

static void tile_truth(struct truth *t)
{
	static char names[20][16];

	*t = (struct truth){ 0 };
	truth_file(t, "host-a", "host-a.xplane.pb");
	truth_line(t, "/host:CPU", "folds");
	truth_event(t, 5000, 10, "short");
	truth_event(t, 5020, 20, "longer");
	truth_event(t, 5050, 10, "short");
	truth_event(t, 1 << 20, 5000, "apart");
	truth_line(t, "/host:CPU", "deep");
	for (int i = 0; i < 300; i++)
		truth_event(t, i, 1000 - 2 * i, "deep");
	truth_line(t, "/host:CPU", "far");
	truth_event(t, -(INT64_C(1) << 40), INT64_C(1) << 41, "far");
	truth_line(t, "/host:CPU", "names");
	truth_event(t, 10, 1, "grad/conv_1");
	truth_event(t, 20, 1, "grad/conv_1/relu");
	truth_event(t, 30, 1,
		    "grad/gr\xc3\xb6\xc3\x9f"
		    "e");
	truth_event(t, 40, 1,
		    "grad/gr\xc3\xb6\xc3\x9f"
		    "er");
	truth_event(t, 50, 1, LONG_NAME);
	truth_event(t, 60, 1, "\xc3\xa4 1");
	truth_event(t, 70, 1, "\xc3\xa4 2");
	for (int i = 4; i < 17; i++) {
		snprintf(names[i], sizeof(names[i]), "t %d", i);
		truth_line(t, "/host:CPU", names[i]);
		truth_event(t, i, 1, names[i]);
	}
	truth_file(t, "host-b", "host-b.xplane.pb");
	for (int i = 0; i < 16; i++) {
		truth_line(t, "/host:CPU", names[4]);
		truth_event(t, i, 1, "one");
	}
}

static void check_folds(const struct view *view)
{
	struct tile t = get_tile(view, (struct view_tile){ .shift = 12, .index = 0 });

	/* three events of 40 ps in 60, in one bucket of 4,096 ps; the longest gives name and number; positions are of 16 ps */
	check_shown(&t, 0, 5000 / 16, (5060 / 16) - (5000 / 16), "longer", 1, 3, 0);
	CHECK_EQ(t.items[0].busy, 255 * 40 / 60);
	check_shown(&t, 1, (1 << 20) / 16, ((1 << 20) + 5000) / 16 - (1 << 20) / 16, "apart", 3, 1,
		    0);
	CHECK_EQ(t.ends[0], 2);
	CHECK_EQ(t.n_tracks, 16);
	tile_free(&t);
}

static void check_rows(const struct view *view)
{
	static const struct {
		uint32_t rows, shown;
	} cases[] = { { 0, 256 },   { 1, 1 },	  { 255, 255 },
		      { 256, 256 }, { 257, 256 }, { UINT32_MAX, 256 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tile t = get_tile(view, (struct view_tile){ .rows = cases[i].rows });

		CHECK_EQ(t.ends[1] - t.ends[0], cases[i].shown);
		CHECK_EQ(t.items[t.ends[1] - 1].row, cases[i].shown - 1);
		tile_free(&t);
	}
}

static void check_names(const struct view *view)
{
	struct tile t = get_tile(view, (struct view_tile){ .shift = 0 });
	uint32_t i = t.ends[2];

	CHECK_EQ(t.ends[3] - i, 7);
	CHECK_STR(t.names[t.items[i].name], "grad/conv_1");
	CHECK_STR(t.names[t.items[i + 1].name], "grad/conv_1/relu");
	CHECK_STR(t.names[t.items[i + 2].name], "grad/gr\xc3\xb6\xc3\x9f"
						"e");
	CHECK_STR(t.names[t.items[i + 3].name], "grad/gr\xc3\xb6\xc3\x9f"
						"er");
	CHECK_EQ(strlen(t.names[t.items[i + 4].name]), 159);
	CHECK(!strncmp(t.names[t.items[i + 4].name], LONG_NAME, 159));
	CHECK_STR(t.names[t.items[i + 5].name], "\xc3\xa4 1");
	CHECK_STR(t.names[t.items[i + 6].name], "\xc3\xa4 2");
	/* what reaches beyond 2^31 units on both sides is cut off there */
	check_shown(&t, t.ends[1], INT32_MIN, UINT32_MAX, "far", 0, 1, 0);
	tile_free(&t);
}

static void test_tile_session(struct stage *s, struct truth *truth)
{
	const struct view_tile beyond[] = { { .group = 2 }, { .file = 1, .group = 1 } };
	struct buf out = BUF_INIT;
	struct view *view;
	struct tile t;
	struct err e;

	tile_truth(truth);
	stage_store(s, truth, "2026_11_29_01_00_00_tiles0", NULL);
	view = stage_open(s, "2026_11_29_01_00_00_tiles0");
	check_folds(view);
	check_rows(view);
	check_names(view);
	t = get_tile(view, (struct view_tile){ .group = 1 });
	CHECK_EQ(t.n_tracks, 1);
	check_shown(&t, 0, 16, 1, "t 16", 0, 1, 0);
	tile_free(&t);
	t = get_tile(view, (struct view_tile){ .file = 1 });
	CHECK_EQ(t.n_tracks, 16);
	for (uint32_t i = 0; i < 16; i++)
		check_shown(&t, i, (int32_t)i, 1, "one", 0, 1, 0);
	tile_free(&t);
	for (size_t i = 0; i < ARRAY_SIZE(beyond); i++)
		CHECK_EQ(view_write_tile(view, &beyond[i], &out, &e), ERR_NOT_FOUND);
	buf_release(&out);
	view_release(view);
}

/* ---- a large session ---- */

/* Every event of a track is in the counts of each level's tiles, and the long ones are there as themselves. */
static void test_all_counted(const struct view *view, const struct truth *truth)
{
	for (unsigned int shift = 18; shift <= 34; shift += 4) {
		const int64_t wide = INT64_C(1024) << shift;
		uint64_t counted[TRUE_LINES] = { 0 };
		int64_t last = 0;

		for (size_t i = 0; i < truth->n; i++)
			last = truth->events[i].start_ps > last ? truth->events[i].start_ps : last;
		for (int64_t index = -1; index <= last / wide; index++) {
			for (uint32_t line = 0; line < truth->n_lines; line++) {
				const struct true_line *l = &truth->lines[line];
				struct tile t = get_tile(view,
							 (struct view_tile){ .file = l->file,
									     .shift = shift,
									     .index = index });
				uint32_t i = l->track ? t.ends[l->track - 1] : 0;

				for (; i < t.ends[l->track]; i++)
					counted[line] += t.items[i].start >= 0 ? t.items[i].count
									       : 0;
				tile_free(&t);
			}
		}
		for (uint32_t line = 0; line < truth->n_lines; line++)
			CHECK_EQ(counted[line],
				 truth->lines[line].is_counter ? LARGE_SAMPLES : LARGE_CALLS);
	}
}

/* Of a counter: the least, the largest and the last value of each bucket. */
static void test_counter(const struct view *view, const struct truth *truth)
{
	const unsigned int shift = 22;

	for (int64_t index = 0; index < 2; index++) {
		struct tile t = get_tile(
			view, (struct view_tile){ .file = 1, .shift = shift, .index = index });
		uint32_t i = t.ends[0];

		for (int64_t bucket = index * 1024; bucket < (index + 1) * 1024; bucket++) {
			double least = INFINITY, largest = -INFINITY, last = 0;
			uint32_t count = 0;

			for (size_t k = 0; k < truth->n; k++) {
				const struct true_event *ev = &truth->events[k];

				if (!line_of(truth, ev)->is_counter ||
				    line_of(truth, ev)->file != 1 ||
				    ev->start_ps >> shift != bucket)
					continue;
				least = fmin(least, ev->value);
				largest = fmax(largest, ev->value);
				last = ev->value;
				count++;
			}
			while (i < t.ends[1] && t.items[i].start < 0) /* the one before the tile */
				i++;
			if (!count)
				continue;
			CHECK(i < t.ends[1]);
			CHECK(float_of(t.items[i].length) == (float)least &&
			      float_of(t.items[i].name) == (float)largest);
			CHECK(float_of(t.items[i].event) == (float)last &&
			      t.items[i].count == count);
			i++;
		}
		CHECK_EQ(i, t.ends[1]);
		tile_free(&t);
	}
}

int main(void)
{
	struct truth *truth = xcalloc(1, sizeof(*truth));
	struct view *view;
	struct stage s;

	stage_start(&s, 0);
	truth_small(truth);
	stage_store(&s, truth, "2026_11_29_01_00_00_small0", NULL);
	view = stage_open(&s, "2026_11_29_01_00_00_small0");
	test_tile(view);
	test_no_tile(view);
	view_release(view);
	test_tile_session(&s, truth);
	truth_large(truth);
	stage_store(&s, truth, "2026_11_29_01_00_00_large0", NULL);
	view = stage_open(&s, "2026_11_29_01_00_00_large0");
	test_all_counted(view, truth);
	test_counter(view, truth);
	view_release(view);
	stage_stop(&s);
	free(truth);
	return 0;
}
