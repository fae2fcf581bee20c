/* SPDX-License-Identifier: Apache-2.0 */
/* A tile: what some tracks show in some time, as columns that a browser uses as they are. */
#include <math.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/clean_text.h"
#include "base/mem.h"

#define TILE_MAGIC 0x32545654u /* "TVT2" */
#define SHIFT_MAX  50
#define UNIT_SHIFT 8 /* positions are in 1/256 of a bucket */
#define NAME_BYTES 160

/* What a tile says of an entry. Of a counter's bucket `length`, `name` and `event` are its least, its largest and its last value, as
 * floats. */
struct tile_entry {
	int32_t start;
	uint32_t length, name, event, count;
	uint16_t row;
	uint8_t busy; /* of 255 */
};

#define VARINT_MAX    5 /* bytes of a number of 32 bits */
#define ENTRIES_FIRST 16384 /* of a usual tile: growing costs copies and page faults */
#define NAME_REST     24

struct tile {
	const struct view_tile *t;
	const struct tvx *x;
	int64_t from_ps;
	unsigned int unit;
	struct tile_entry *entries;
	size_t n, cap;
	uint32_t *
		places; /* by the file's number of a name: whether it is in the tile; then its place */
	uint32_t *names;
	uint32_t n_names;
	int64_t bucket; /* of a counter: that the last entry is of */
	uint32_t counts, rows; /* all bits that are set in an entry's count, in a row */
};

static struct tile_entry *add_entry(struct tile *tile)
{
	if (tile->n == tile->cap) {
		tile->cap = tile->cap ? 2 * tile->cap : ENTRIES_FIRST;
		tile->entries = xrealloc(tile->entries, tile->cap * sizeof(*tile->entries));
	}
	return &tile->entries[tile->n++];
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

/* How busy it is, of 255. */
static uint8_t share_of(const struct tvx_entry *en)
{
	/* lengths are below 2^62: signed numbers become floats without a branch */
	float busy = (float)(int64_t)en->busy_ps, length = (float)(int64_t)en->length_ps;

	return en->busy_ps < en->length_ps ? (uint8_t)(255 * busy / length) : 255;
}

static int add_event(void *arg, const struct tvx_entry *en)
{
	struct tile *tile = arg;
	struct tile_entry *out = add_entry(tile);
	int64_t end = en->start_ps + (int64_t)en->length_ps;

	out->start = position(tile, en->start_ps);
	out->length = (uint32_t)((int64_t)position(tile, end) - out->start);
	out->name = en->name; /* the file's number, until the tile is full */
	tile->n_names += !tile->places[en->name];
	tile->places[en->name] = 1;
	out->event = cut32(en->event);
	out->count = cut32(en->count);
	out->row = (uint16_t)en->row;
	out->busy = en->count > 1 ? share_of(en) : 255;
	tile->counts |= out->count;
	tile->rows |= out->row;
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
		*out = (struct tile_entry){ .start = position(tile, en->start_ps),
					    .length = bits,
					    .name = bits,
					    .count = 1 };
		tile->bucket = bucket;
	}
	out->event = bits;
	tile->counts |= out->count;
	return 0;
}

static void put32(struct buf *out, uint32_t v)
{
	buf_add(out, &v, sizeof(v));
}

/* ---- bytes ---- */

static inline uint8_t *put_number(uint8_t *p, uint32_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

static inline uint32_t zigzag(uint32_t difference)
{
	return difference << 1 ^ -(difference >> 31);
}

/* Room for a column of n numbers, however long; that for all columns at once would be many pages. */
static uint8_t *begin_column(struct buf *out, size_t n)
{
	buf_reserve(out, n * VARINT_MAX);
	return out->data + out->len;
}

static void end_column(struct buf *out, const uint8_t *end)
{
	out->len = (size_t)(end - out->data);
}

/* Differences to the entry before on the track. */
static void write_starts(const struct tile *tile, const uint32_t *ends, struct buf *out)
{
	const struct tile_entry *en = tile->entries;
	uint8_t *p = begin_column(out, tile->n);
	size_t i = 0;

	for (uint32_t t = 0, before = 0; i < tile->n; t++, before = 0) {
		for (; i < ends[t]; before = (uint32_t)en[i++].start)
			p = put_number(p, zigzag((uint32_t)en[i].start - before));
	}
	end_column(out, p);
}

static void write_events(const struct tile *tile, const uint32_t *ends, struct buf *out)
{
	const struct tile_entry *en = tile->entries;
	uint8_t *p = begin_column(out, tile->n);
	size_t i = 0;

	for (uint32_t t = 0, before = 0; i < tile->n; t++, before = 0) {
		for (; i < ends[t]; before = en[i++].event)
			p = put_number(p, zigzag(en[i].event - before));
	}
	end_column(out, p);
}

/* A member of 32 bits, at `offset` in each entry. */
static void write_numbers(const struct tile *tile, size_t offset, struct buf *out)
{
	const struct tile_entry *en = tile->entries, *last = en + tile->n;
	uint8_t *p = begin_column(out, tile->n);
	uint32_t v;

	for (; en < last; en++) {
		memcpy(&v, (const uint8_t *)en + offset, sizeof(v));
		p = put_number(p, v);
	}
	end_column(out, p);
}

/* Most often all counts are a byte each, and so are all rows. */
static void write_counts(const struct tile *tile, struct buf *out)
{
	const struct tile_entry *en = tile->entries, *last = en + tile->n;
	uint8_t *p = begin_column(out, tile->n);

	if (tile->counts >= 0x80) {
		write_numbers(tile, offsetof(struct tile_entry, count), out);
		return;
	}
	for (; en < last; en++)
		*p++ = (uint8_t)en->count;
	end_column(out, p);
}

static void write_rows(const struct tile *tile, struct buf *out)
{
	const struct tile_entry *en = tile->entries, *last = en + tile->n;
	uint8_t *p = begin_column(out, tile->n);

	if (tile->rows < 0x80) {
		for (; en < last; en++)
			*p++ = (uint8_t)en->row;
	}
	for (; en < last; en++)
		p = put_number(p, en->row);
	end_column(out, p);
}

static void write_busy(const struct tile *tile, struct buf *out)
{
	const struct tile_entry *en = tile->entries, *last = en + tile->n;
	uint8_t *p = begin_column(out, tile->n);

	for (; tile->counts > 1 && en < last; en++) {
		*p = en->busy;
		p += en->count > 1;
	}
	end_column(out, p);
}

static void write_columns(const struct tile *tile, const uint32_t *ends, struct buf *out)
{
	write_starts(tile, ends, out);
	write_numbers(tile, offsetof(struct tile_entry, length), out);
	write_numbers(tile, offsetof(struct tile_entry, name), out);
	write_events(tile, ends, out);
	write_counts(tile, out);
	write_rows(tile, out);
	write_busy(tile, out);
}

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* Eight characters at once: the lowest bit that is set is of the first that differs, or is not ASCII. */
static size_t shared_ascii(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t most = a_len < b_len ? a_len : b_len, n = 0;
	uint64_t x, y, odd;

	for (; most - n >= sizeof(x); n += sizeof(x)) {
		memcpy(&x, a + n, sizeof(x));
		memcpy(&y, b + n, sizeof(y));
		odd = (x ^ y) | (x & HIGH_BITS);
		if (odd)
			return n + (size_t)__builtin_ctzll(odd) / 8;
	}
	while (n < most && a[n] == b[n] && !((uint8_t)a[n] & 0x80))
		n++;
	return n;
}

/* Names that follow one another begin alike: of each how many (plain) characters it has of the one before, and the rest. */
static void write_names(struct tile *tile, struct buf *out)
{
	char name[2][NAME_BYTES];
	struct buf rests = BUF_INIT;
	size_t before = 0, len, raw;
	uint8_t *p;

	buf_reserve(&rests, tile->n_names * NAME_REST);
	buf_reserve(out, tile->n_names * 2 * VARINT_MAX);
	p = out->data + out->len;
	for (uint32_t i = 0; i < tile->n_names; i++) {
		const char *s = tvx_name(tile->x, tile->names[i], &raw);
		size_t shared;

		len = clean_text(name[i % 2], NAME_BYTES, s, raw);
		shared = shared_ascii(name[!(i % 2)], before, name[i % 2], len);
		p = put_number(p, (uint32_t)shared);
		p = put_number(p, (uint32_t)(len - shared));
		buf_add(&rests, name[i % 2] + shared, len - shared);
		before = len;
	}
	out->len = (size_t)(p - out->data);
	buf_add(out, rests.data, rests.len);
	buf_release(&rests);
}

/* Names get their places in the order of the file, where those that begin alike are near. */
static void place_names(struct tile *tile, uint32_t n_tracks, const uint32_t *ends)
{
	const struct tvx_track *tracks;
	uint32_t n = 0;
	size_t i = 0;

	tvx_tracks(tile->x, &tracks);
	tile->names = xmalloc((tile->n_names + 1) * sizeof(*tile->names));
	for (size_t k = 0; k < tvx_names(tile->x); k++) {
		if (!tile->places[k])
			continue;
		tile->names[n] = (uint32_t)k;
		tile->places[k] = n++;
	}
	for (uint32_t t = 0; t < n_tracks; t++) {
		bool is_counter = tracks[tile->t->group * TILE_TRACKS + t].kind == TVX_COUNTER;

		for (; i < ends[t]; i++)
			tile->entries[i].name = is_counter ? tile->entries[i].name
							   : tile->places[tile->entries[i].name];
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
		place_names(&tile, n_tracks, ends);
		put32(out, TILE_MAGIC);
		put32(out, n_tracks);
		put32(out, (uint32_t)tile.n);
		put32(out, tile.n_names);
		buf_add(out, ends, n_tracks * sizeof(ends[0]));
		write_columns(&tile, ends, out);
		write_names(&tile, out);
	}
	free(tile.entries);
	free(tile.places);
	free(tile.names);
	return rc;
}
