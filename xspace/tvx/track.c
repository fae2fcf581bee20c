/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The levels of a track are filled all at once: each entry of a level goes into its block and on to the next
 * level's fold. So a track needs one block and one fold a level, whatever its number of events.
 */
#include "xspace/tvx/track.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "xspace/tvx/block.h"
#include "xspace/tvx/fold.h"
#include "xspace/tvx/rows.h"

/* Tracks with fewer events have no coarser level: folding a few blocks costs a query nothing. */
#define LEVELS_FROM 2048
#define LEVEL_STEP  2
#define LEVELS_MAX  22
/* A level that leaves more of the one before it than this is not worth its bytes. */
#define KEEP_PERCENT 60

void *table_add(struct table *t, size_t size)
{
	void *item;

	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->items = xrealloc(t->items, t->cap * size);
	}
	item = (char *)t->items + t->n++ * size;
	memset(item, 0, size);
	return item;
}

int tvx_write(struct tvx_writer *w, const void *data, size_t len, struct err *e)
{
	int rc = len ? w->sink->write(w->sink->arg, data, len, e) : 0;

	if (!rc)
		w->at += len;
	return rc;
}

void tvx_writer_release(struct tvx_writer *w)
{
	struct table *tables[] = { &w->planes, &w->tracks, &w->totals,
				   &w->flows,  &w->levels, &w->blocks };

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		free(tables[i]->items);
	names_release(&w->names);
	free(w->total_of);
	buf_release(&w->scratch);
}

/* ---- levels ---- */

struct level_writer {
	struct track_writer *track;
	struct level_writer *next; /* or NULL */
	unsigned int shift;
	bool is_dropped; /* entries go on to the next level only */
	uint64_t n_in, n_out;
	struct fold fold;
	struct tvx_entry *block; /* the carried entries, then its own */
	size_t n_block, n_carried, block_cap;
	bool is_written; /* the next entry begins a new block */
	struct table blocks;
	struct err *e;
};

struct track_writer {
	struct tvx_writer *w;
	struct tvx_track track;
	struct rows rows;
	struct level_writer levels[LEVELS_MAX];
	size_t n_levels;
	struct err *e;
};

static int write_block(struct level_writer *l)
{
	struct tvx_writer *w = l->track->w;
	struct block *dir;
	int rc;

	if (!l->n_block || l->is_written)
		return 0;
	buf_reset(&w->scratch);
	block_pack(&w->scratch, l->block, l->n_carried, l->n_block - l->n_carried, !l->shift);
	dir = table_add(&l->blocks, sizeof(*dir));
	dir->at = w->at;
	dir->len = (uint32_t)w->scratch.len;
	dir->n_carried = (uint32_t)l->n_carried;
	dir->n = (uint32_t)(l->n_block - l->n_carried);
	dir->first = l->n_out - dir->n;
	dir->start_ps = l->block[l->n_carried].start_ps;
	dir->crc = crc32c(0, w->scratch.data, w->scratch.len);
	rc = tvx_write(w, w->scratch.data, w->scratch.len, l->e);
	l->is_written = true;
	return rc;
}

static void add_to_block(struct level_writer *l, const struct tvx_entry *en)
{
	if (l->n_block == l->block_cap) {
		l->block_cap = l->block_cap ? 2 * l->block_cap : 64;
		l->block = xrealloc(l->block, l->block_cap * sizeof(*l->block));
	}
	l->block[l->n_block++] = *en;
}

/* A new block begins: of the one that is written it keeps what has not ended. */
static void carry(struct level_writer *l, int64_t start_ps)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_block; i++) {
		if (entry_end(&l->block[i]) > start_ps)
			l->block[n++] = l->block[i];
	}
	l->n_block = l->n_carried = n;
	l->is_written = false;
}

static int add_to_level(struct level_writer *l, const struct tvx_entry *en);

/* An entry that this level's fold has finished. */
static int add_folded(void *arg, const struct tvx_entry *en)
{
	struct level_writer *l = arg;
	size_t own;
	int rc = 0;

	if (l->is_written)
		carry(l, en->start_ps);
	add_to_block(l, en);
	l->n_out++;
	own = l->n_block - l->n_carried;
	/* many rows: blocks grow, so that most of a block is not carried */
	if (own >= BLOCK_ENTRIES && own >= 4 * l->n_carried)
		rc = write_block(l);
	if (!rc && l->next)
		rc = add_to_level(l->next, en);
	return rc;
}

static bool is_useless(const struct level_writer *l)
{
	return l->shift && l->n_out * 100 > l->n_in * KEEP_PERCENT;
}

static int add_to_level(struct level_writer *l, const struct tvx_entry *en)
{
	if (!l->shift)
		return add_folded(l, en);
	if (l->is_dropped)
		return l->next ? add_to_level(l->next, en) : 0;
	if (!(++l->n_in % (16 * BLOCK_ENTRIES)) && is_useless(l)) {
		int rc = fold_end(&l->fold);

		l->is_dropped = true;
		return rc ? rc : add_to_level(l, en);
	}
	return fold_add(&l->fold, en);
}

/* The finest coarse level folds 2 to 8 events of an even track into one; finer ones would be as long as the track. */
static unsigned int first_shift(uint64_t span, size_t n)
{
	uint64_t mean = n ? span / n : 0;
	unsigned int shift = LEVEL_STEP;

	while (2 * mean >> shift)
		shift += LEVEL_STEP;
	return shift;
}

static void open_levels(struct track_writer *t, const struct line_event *events, size_t n,
			bool is_all)
{
	uint64_t span = n ? (uint64_t)(events[n - 1].start_ps - events[0].start_ps) : 0;
	unsigned int shift = 0;

	do {
		struct level_writer *l = &t->levels[t->n_levels++];

		*l = (struct level_writer){ .track = t, .shift = shift, .e = t->e };
		fold_init(&l->fold, shift, add_folded, l);
		if (t->n_levels > 1)
			l[-1].next = l;
		shift = shift ? shift + LEVEL_STEP : first_shift(span, n);
		/* a level of 512 pixels is the coarsest that a query of a whole track needs */
	} while (n >= LEVELS_FROM && t->n_levels < LEVELS_MAX && shift < 60 &&
		 (!is_all || span >> shift > 512));
}

static int close_levels(struct track_writer *t)
{
	struct tvx_writer *w = t->w;
	int rc = 0;

	for (size_t i = 0; !rc && i < t->n_levels; i++) {
		rc = fold_end(&t->levels[i].fold);
		if (!rc)
			rc = write_block(&t->levels[i]);
	}
	for (size_t i = 0; !rc && i < t->n_levels; i++) {
		struct level_writer *l = &t->levels[i];
		const struct block *from = l->blocks.items;
		struct level *dir;

		if (l->is_dropped || is_useless(l))
			continue;
		dir = table_add(&w->levels, sizeof(*dir));
		*dir = (struct level){ .shift = l->shift,
				       .block0 = (uint32_t)w->blocks.n,
				       .n_blocks = (uint32_t)l->blocks.n,
				       .entries = l->n_out };
		t->track.n_levels++;
		for (size_t k = 0; k < l->blocks.n; k++)
			*(struct block *)table_add(&w->blocks, sizeof(*from)) = from[k];
	}
	return rc;
}

static void release_levels(struct track_writer *t)
{
	for (size_t i = 0; i < t->n_levels; i++) {
		fold_release(&t->levels[i].fold);
		free(t->levels[i].block);
		free(t->levels[i].blocks.items);
	}
}

/* ---- totals and flows ---- */

/* The total of this name on the track that is written. */
static struct tvx_total *find_total(struct track_writer *t, const struct line_event *ev)
{
	struct tvx_writer *w = t->w;
	struct tvx_total *total;

	if (ev->name >= w->n_total_of) {
		size_t n = 2 * ((size_t)ev->name + 1);

		w->total_of = xrealloc(w->total_of, n * sizeof(*w->total_of));
		memset(w->total_of + w->n_total_of, 0, (n - w->n_total_of) * sizeof(*w->total_of));
		w->n_total_of = n;
	}
	if (w->total_of[ev->name] > t->track.total0)
		return (struct tvx_total *)w->totals.items + w->total_of[ev->name] - 1;
	total = table_add(&w->totals, sizeof(*total));
	*total = (struct tvx_total){ .min_ps = UINT64_MAX,
				     .first_ps = ev->start_ps,
				     .name = ev->name,
				     .track = (uint32_t)w->tracks.n };
	w->total_of[ev->name] = (uint32_t)w->totals.n;
	return total;
}

static void add_total(struct track_writer *t, const struct line_event *ev)
{
	struct tvx_total *total = find_total(t, ev);

	total->count++;
	total->last_ps = ev->start_ps;
	if (__builtin_add_overflow(total->total_ps, ev->length_ps, &total->total_ps))
		total->total_ps = UINT64_MAX;
	if (ev->length_ps < total->min_ps)
		total->min_ps = ev->length_ps;
	if (ev->length_ps > total->max_ps)
		total->max_ps = ev->length_ps;
}

static void add_flow(struct tvx_writer *w, uint64_t event, const struct line_event *ev)
{
	if (w->flows.n == TVX_FLOWS_MAX || event > UINT32_MAX || w->tracks.n >> 30) {
		w->flows_left_out++;
		return;
	}
	*(struct tvx_flow *)table_add(&w->flows, sizeof(struct tvx_flow)) =
		(struct tvx_flow){ .id = ev->extra >> 2,
				   .event = (uint32_t)event,
				   .track = (uint32_t)w->tracks.n & ((1u << 30) - 1),
				   .direction = ev->extra & 3 };
}

/* ---- a track ---- */

static void note_extent(struct tvx_track *track, const struct tvx_entry *en)
{
	int64_t end = en->start_ps + (int64_t)en->length_ps;
	double value;

	if (!track->events++) {
		track->first_ps = en->start_ps;
		track->last_ps = end;
	}
	if (end > track->last_ps)
		track->last_ps = end;
	if (en->row >= track->rows)
		track->rows = en->row + 1;
	if (track->kind != TVX_COUNTER)
		return;
	memcpy(&value, &en->busy_ps, sizeof(value));
	if (track->events == 1 || value < track->min)
		track->min = value;
	if (track->events == 1 || value > track->max)
		track->max = value;
}

static int add_event(struct track_writer *t, const struct line_event *ev)
{
	bool is_counter = t->track.kind == TVX_COUNTER;
	struct tvx_entry en = { .start_ps = ev->start_ps,
				.length_ps = ev->length_ps,
				.count = 1,
				.busy_ps = is_counter ? ev->extra : ev->length_ps,
				.longest_ps = ev->length_ps,
				.event = t->track.events,
				.source = ev->source,
				.name = ev->name };

	if (!is_counter)
		en.row = rows_take(&t->rows, en.start_ps, entry_end(&en));
	if (en.row == TVX_ROWS_MAX)
		return err_set(t->e, ERR_LIMIT, "more than %d events at once on a line",
			       TVX_ROWS_MAX);
	if (!is_counter && ev->extra)
		add_flow(t->w, en.event, ev);
	add_total(t, ev);
	note_extent(&t->track, &en);
	return add_to_level(&t->levels[0], &en);
}

struct track_writer *track_begin(struct tvx_writer *w, const struct tvx_track *head,
				 const struct line_event *events, size_t n, bool is_all,
				 struct err *e)
{
	struct track_writer *t = xcalloc(1, sizeof(*t));

	t->w = w;
	t->e = e;
	t->track = *head;
	t->track.level0 = (uint32_t)w->levels.n;
	t->track.total0 = (uint32_t)w->totals.n;
	/* of a counter a query gives every sample: it needs no coarser level */
	open_levels(t, events, head->kind == TVX_COUNTER ? 0 : n, is_all);
	return t;
}

int track_add(struct track_writer *t, const struct line_event *events, size_t n)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++)
		rc = add_event(t, &events[i]);
	return rc;
}

int track_end(struct track_writer *t, int rc)
{
	struct tvx_writer *w = t->w;

	if (!rc)
		rc = close_levels(t);
	t->track.n_totals = (uint32_t)w->totals.n - t->track.total0;
	*(struct tvx_track *)table_add(&w->tracks, sizeof(t->track)) = t->track;
	rows_release(&t->rows);
	release_levels(t);
	free(t);
	return rc;
}
