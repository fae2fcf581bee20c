/* SPDX-License-Identifier: Apache-2.0 */
/* A tile: what some tracks show in some time, as columns that a browser uses as they are. */
#include <math.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/clean_text.h"
#include "base/mem.h"

#define TILE_MAGIC 0x31545654u /* "TVT1" */
#define SHIFT_MAX  50
#define UNIT_SHIFT 8 /* positions are in 1/256 of a bucket */
#define NAME_BYTES 160

/* The numbers of an entry, column by column. A counter's: of a bucket, as floats, `length` the least value, `name` the
 * largest, `event` the last. */
struct tile_entry {
	int32_t start;
	uint32_t length, name, event, count,
		row_busy; /* row_busy: the row, and (<< 16) how busy: 0 to 65535 */
};

#define COLUMNS 6

struct tile {
	const struct view_tile *t;
	const struct tvx *x;
	int64_t from_ps;
	unsigned int unit;
	struct tile_entry *entries;
	size_t n, cap;
	/* names: file's number -> place in the tile */
	uint32_t *places; /* 1 + place; by the file's number */
	uint32_t *names;
	uint32_t n_names, names_cap;
	int64_t bucket; /* of a counter: that the last entry is of */
};

static struct tile_entry *add_entry(struct tile *tile)
{
	if (tile->n == tile->cap) {
		tile->cap = tile->cap ? 2 * tile->cap : 1024;
		tile->entries = xrealloc(tile->entries, tile->cap * sizeof(*tile->entries));
	}
	return &tile->entries[tile->n++];
}

static uint32_t place_name(struct tile *tile, uint32_t name)
{
	if (!tile->places[name]) {
		if (tile->n_names == tile->names_cap) {
			tile->names_cap = tile->names_cap ? 2 * tile->names_cap : 64;
			tile->names = xrealloc(tile->names, tile->names_cap * sizeof(*tile->names));
		}
		tile->names[tile->n_names] = name;
		tile->places[name] = ++tile->n_names;
	}
	return tile->places[name] - 1;
}

static int32_t position(const struct tile *tile, int64_t ps)
{
	int64_t units = (ps - tile->from_ps) >> tile->unit;

	return units < INT32_MIN ? INT32_MIN : units > INT32_MAX ? INT32_MAX : (int32_t)units;
}

static uint32_t cut32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static int add_event(void *arg, const struct tvx_entry *en)
{
	struct tile *tile = arg;
	struct tile_entry *out = add_entry(tile);
	int64_t end = en->start_ps + (int64_t)en->length_ps;
	double busy = en->length_ps ? (double)en->busy_ps / (double)en->length_ps : 1;

	out->start = position(tile, en->start_ps);
	out->length = (uint32_t)((int64_t)position(tile, end) - out->start);
	out->name = place_name(tile, en->name);
	out->event = cut32(en->event);
	out->count = cut32(en->count);
	out->row_busy = (en->row & 0xffff) | (uint32_t)(busy >= 1 ? 65535 : busy * 65535) << 16;
	return 0;
}

static uint32_t float_bits(double v)
{
	float f = (float)(isfinite(v) ? v : 0);
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static float bits_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Samples of a bucket become one entry with the least, the largest and the last of them: no spike vanishes. */
static int add_sample(void *arg, const struct tvx_entry *en)
{
	struct tile *tile = arg;
	int64_t bucket = en->start_ps >> tile->t->shift;
	struct tile_entry *out;
	uint32_t bits;
	double value;

	memcpy(&value, &en->busy_ps, sizeof(value));
	bits = float_bits(value);
	if (tile->n && tile->bucket == bucket) {
		out = &tile->entries[tile->n - 1];
		if (bits_float(bits) < bits_float(out->length))
			out->length = bits;
		if (bits_float(bits) > bits_float(out->name))
			out->name = bits;
		out->count++;
	} else {
		out = add_entry(tile);
		*out = (struct tile_entry){ position(tile, en->start_ps), bits, bits, 0, 1, 0 };
		tile->bucket = bucket;
	}
	out->event = bits;
	return 0;
}

static void put32(struct buf *out, uint32_t v)
{
	buf_add(out, &v, sizeof(v));
}

static void write_names(struct tile *tile, struct buf *out)
{
	struct buf text = BUF_INIT;
	char name[NAME_BYTES];
	size_t len;

	for (uint32_t i = 0; i < tile->n_names; i++) {
		const char *s = tvx_name(tile->x, tile->names[i], &len);

		buf_add(&text, name, clean_text(name, sizeof(name), s, len));
		put32(out, (uint32_t)text.len);
	}
	buf_add(out, text.data, text.len);
	while (out->len % 4)
		buf_add_u8(out, 0);
	buf_release(&text);
}

static void write_column(const struct tile *tile, size_t member, struct buf *out)
{
	buf_reserve(out, tile->n * sizeof(uint32_t));
	for (size_t i = 0; i < tile->n; i++) {
		memcpy(out->data + out->len, (const uint8_t *)&tile->entries[i] + member,
		       sizeof(uint32_t));
		out->len += sizeof(uint32_t);
	}
}

static int fill(struct tile *tile, uint32_t n_tracks, uint32_t *ends, struct err *e)
{
	const struct view_tile *t = tile->t;
	struct tvx_window w = { .from_ps = tile->from_ps,
				.to_ps = tile->from_ps + ((int64_t)TILE_BUCKETS << t->shift),
				.shift = t->shift,
				.rows = t->rows && t->rows < TILE_ROWS ? t->rows : TILE_ROWS };
	const struct tvx_track *tracks;
	int rc = 0;

	tvx_tracks(tile->x, &tracks);
	for (uint32_t i = 0; !rc && i < n_tracks; i++) {
		uint32_t track = t->group * TILE_TRACKS + i;

		tile->bucket = INT64_MIN;
		rc = tvx_query(tile->x, track, &w,
			       tracks[track].kind == TVX_COUNTER ? add_sample : add_event, tile, e);
		ends[i] = (uint32_t)tile->n;
	}
	return rc;
}

static int check(const struct view *view, const struct view_tile *t, uint32_t *n_tracks,
		 struct err *e)
{
	int64_t furthest = t->shift <= SHIFT_MAX
				   ? (INT64_C(1) << 60) / ((int64_t)TILE_BUCKETS << t->shift)
				   : 0;
	const struct tvx_track *tracks;
	size_t n;

	if (t->shift > SHIFT_MAX || t->index < -furthest - 1 || t->index > furthest)
		return err_set(e, ERR_INVALID, "there is no such tile");
	if (t->file >= view->n_files)
		return err_set(e, ERR_NOT_FOUND, "the session has no file %u", t->file);
	n = tvx_tracks(view->files[t->file].x, &tracks);
	if (t->group > n / TILE_TRACKS || t->group * TILE_TRACKS == n)
		return err_set(e, ERR_NOT_FOUND, "the file has no tracks %u and following",
			       t->group * TILE_TRACKS);
	n -= t->group * TILE_TRACKS;
	*n_tracks = n < TILE_TRACKS ? (uint32_t)n : TILE_TRACKS;
	return 0;
}

int view_write_tile(const struct view *view, const struct view_tile *t, struct buf *out,
		    struct err *e)
{
	uint32_t ends[TILE_TRACKS], n_tracks = 0;
	struct tile tile = { .t = t };
	int rc = check(view, t, &n_tracks, e);

	if (rc)
		return rc;
	tile.x = view->files[t->file].x;
	tile.from_ps = t->index * ((int64_t)TILE_BUCKETS << t->shift);
	tile.unit = t->shift > UNIT_SHIFT ? t->shift - UNIT_SHIFT : 0;
	tile.places = xcalloc(tvx_names(tile.x) + 1, sizeof(*tile.places));
	rc = fill(&tile, n_tracks, ends, e);
	if (!rc) {
		put32(out, TILE_MAGIC);
		put32(out, n_tracks);
		put32(out, (uint32_t)tile.n);
		put32(out, tile.n_names);
		buf_add(out, ends, n_tracks * sizeof(ends[0]));
		for (size_t c = 0; c < COLUMNS; c++)
			write_column(&tile, c * sizeof(uint32_t), out);
		write_names(&tile, out);
	}
	free(tile.entries);
	free(tile.places);
	free(tile.names);
	return rc;
}
