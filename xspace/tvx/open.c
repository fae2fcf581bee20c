/* SPDX-License-Identifier: Apache-2.0 */
/* An index is checked as a whole when it is opened: later only the bytes of its blocks are in doubt. */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "xspace/tvx/index.h"

struct span {
	uint64_t at, len;
};

/* Where the tables are, from the first one on: in the order of the file. */
struct layout {
	struct span planes, tracks, totals, flows, levels, blocks, ends, strings;
	uint64_t end;
};

static struct span take(uint64_t *at, uint64_t n, uint64_t size)
{
	struct span s = { *at, n * size }; /* n has 32 bits, size less than 8 */

	*at += s.len;
	return s;
}

static struct layout lay_out(const struct footer *f)
{
	struct layout l;

	l.end = 0;
	l.planes = take(&l.end, f->n_planes, sizeof(struct tvx_plane));
	l.tracks = take(&l.end, f->n_tracks, sizeof(struct tvx_track));
	l.totals = take(&l.end, f->n_totals, sizeof(struct tvx_total));
	l.flows = take(&l.end, f->n_flows, sizeof(struct tvx_flow));
	l.levels = take(&l.end, f->n_levels, sizeof(struct level));
	l.blocks = take(&l.end, f->n_blocks, sizeof(struct block));
	l.ends = take(&l.end, f->n_names, sizeof(uint64_t));
	l.strings = take(&l.end, f->string_bytes, 1);
	l.end = (l.end + 7) & ~UINT64_C(7);
	return l;
}

static int damaged(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "the index is damaged: %s", what);
}

/* `end` has the footer at its end. */
static int read_footer(const uint8_t *end, size_t len, uint64_t source_bytes, struct footer *f,
		       struct err *e)
{
	if (len < sizeof(*f))
		return damaged(e, "it has no end");
	memcpy(f, end + len - sizeof(*f), sizeof(*f));
	if (memcmp(f->magic, TVX_MAGIC, sizeof(f->magic)))
		return damaged(e, "it has no end");
	if (f->version != TVX_VERSION)
		return err_set(e, ERR_INVALID, "the index has version %u, not %u", f->version,
			       TVX_VERSION);
	if (f->crc != crc32c(0, f, offsetof(struct footer, crc)))
		return damaged(e, "the checksum of its end");
	if (f->source_bytes != source_bytes)
		return err_set(e, ERR_INVALID, "the index is of a file of another size");
	return 0;
}

/* [first, first + n) lies in [0, max). */
static bool is_within(uint64_t first, uint64_t n, uint64_t max)
{
	return first <= max && n <= max - first;
}

static const char *check_levels(const struct tvx *x, const struct tvx_track *t)
{
	for (uint32_t i = t->level0; i < t->level0 + t->n_levels; i++) {
		const struct level *l = &x->levels[i];

		if (!is_within(l->block0, l->n_blocks, x->n_blocks) || l->shift > 62)
			return "a level";
		if (i == t->level0 ? l->shift != 0 : l->shift <= l[-1].shift)
			return "the order of levels";
	}
	return NULL;
}

static const char *check_tables(const struct tvx *x)
{
	const char *wrong = NULL;

	for (uint32_t i = 0; i < x->n_names; i++) {
		if (x->ends[i] < (i ? x->ends[i - 1] : 0) || x->ends[i] > x->string_bytes)
			return "a name";
	}
	for (uint32_t i = 0; i < x->n_planes; i++) {
		if (x->planes[i].name >= x->n_names)
			return "a plane";
	}
	for (uint32_t i = 0; i < x->n_tracks && !wrong; i++) {
		const struct tvx_track *t = &x->tracks[i];

		if (t->name >= x->n_names || t->plane >= x->n_planes || t->kind > TVX_COUNTER ||
		    t->rows > TVX_ROWS_MAX || !t->n_levels ||
		    !is_within(t->level0, t->n_levels, x->n_levels) ||
		    !is_within(t->total0, t->n_totals, x->n_totals))
			return "a track";
		wrong = check_levels(x, t);
	}
	for (uint32_t i = 0; i < x->n_totals; i++) {
		if (x->totals[i].name >= x->n_names || x->totals[i].track >= x->n_tracks)
			return "a total";
	}
	for (uint32_t i = 0; i < x->n_flows; i++) {
		if (x->flows[i].track >= x->n_tracks)
			return "a flow";
	}
	for (uint32_t i = 0; i < x->n_blocks && !wrong; i++) {
		const struct block *b = &x->blocks[i];

		if (!is_within(b->at, b->len, x->tables_at) || !b->n || b->n > BLOCK_MAX ||
		    b->n_carried > BLOCK_MAX)
			wrong = "a block's place";
	}
	return wrong;
}

static int check(struct tvx *x, const uint8_t *tables, const struct footer *f,
		 const struct layout *l, struct err *e)
{
	const char *wrong;

	if (f->tables_crc != crc32c(0, tables, (size_t)l->end))
		return damaged(e, "the checksum of its tables");
	wrong = check_tables(x);
	return wrong ? damaged(e, wrong) : 0;
}

int tvx_open_part(struct tvx **out, const void *blocks, uint64_t blocks_len, const void *tables,
		  size_t tables_len, uint64_t source_bytes, struct err *e)
{
	const uint8_t *bytes = tables;
	struct layout l;
	struct footer f;
	struct tvx *x;
	int rc = read_footer(bytes, tables_len, source_bytes, &f, e);

	if (rc)
		return rc;
	if (f.tables_at > blocks_len || f.string_bytes > tables_len)
		return damaged(e, "its tables lie outside of it");
	l = lay_out(&f);
	if (l.end != tables_len - sizeof(f))
		return damaged(e, "its tables lie outside of it");
	x = xcalloc(1, sizeof(*x));
	*x = (struct tvx){
		.data = blocks,
		.tables_at = f.tables_at,
		.string_bytes = f.string_bytes,
		.flows_left_out = f.flows_left_out,
		.planes = (const void *)(bytes + l.planes.at),
		.tracks = (const void *)(bytes + l.tracks.at),
		.totals = (const void *)(bytes + l.totals.at),
		.flows = (const void *)(bytes + l.flows.at),
		.levels = (const void *)(bytes + l.levels.at),
		.blocks = (const void *)(bytes + l.blocks.at),
		.ends = (const void *)(bytes + l.ends.at),
		.strings = (const char *)bytes + l.strings.at,
		.n_planes = f.n_planes,
		.n_tracks = f.n_tracks,
		.n_totals = f.n_totals,
		.n_flows = f.n_flows,
		.n_levels = f.n_levels,
		.n_blocks = f.n_blocks,
		.n_names = f.n_names,
	};
	x->is_sound = xcalloc((size_t)f.n_blocks + 1, sizeof(*x->is_sound));
	rc = check(x, bytes, &f, &l, e);
	if (rc)
		tvx_close(x);
	else
		*out = x;
	return rc;
}

int tvx_open(struct tvx **out, const void *data, size_t len, uint64_t source_bytes, struct err *e)
{
	const uint8_t *bytes = data;
	struct footer f;
	int rc = read_footer(bytes, len, source_bytes, &f, e);

	if (rc)
		return rc;
	if (f.tables_at > len || f.tables_at % 8)
		return damaged(e, "its tables lie outside of it");
	return tvx_open_part(out, bytes, f.tables_at, bytes + f.tables_at,
			     len - (size_t)f.tables_at, source_bytes, e);
}

void tvx_close(struct tvx *x)
{
	if (!x)
		return;
	free(x->is_sound);
	free(x);
}

size_t tvx_planes(const struct tvx *x, const struct tvx_plane **out)
{
	*out = x->planes;
	return x->n_planes;
}

size_t tvx_tracks(const struct tvx *x, const struct tvx_track **out)
{
	*out = x->tracks;
	return x->n_tracks;
}

size_t tvx_totals(const struct tvx *x, const struct tvx_total **out)
{
	*out = x->totals;
	return x->n_totals;
}

size_t tvx_names(const struct tvx *x)
{
	return x->n_names;
}

const char *tvx_name(const struct tvx *x, uint32_t name, size_t *len)
{
	uint64_t begin = name ? x->ends[name - 1] : 0;

	*len = (size_t)(x->ends[name] - begin);
	return x->strings + begin;
}

uint64_t tvx_flows_left_out(const struct tvx *x)
{
	return x->flows_left_out;
}

/* The first end whose id is at least this. */
static size_t first_flow(const struct tvx *x, uint64_t id)
{
	size_t low = 0, high = x->n_flows;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (x->flows[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t tvx_flows(const struct tvx *x, const struct tvx_flow **out)
{
	*out = x->flows;
	return x->n_flows;
}

size_t tvx_flow_ends(const struct tvx *x, uint64_t id, const struct tvx_flow **out)
{
	size_t first = first_flow(x, id), n = first;

	while (n < x->n_flows && x->flows[n].id == id)
		n++;
	*out = x->flows + first;
	return n - first;
}
