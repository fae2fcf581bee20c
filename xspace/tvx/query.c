/* SPDX-License-Identifier: Apache-2.0 */
/* A window of a track: the block that it begins in, and those after it up to its end. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "xspace/tvx/block.h"
#include "xspace/tvx/fold.h"
#include "xspace/tvx/index.h"

#define SHIFT_MAX 62

struct query {
	const struct tvx *x;
	const struct tvx_track *track;
	const struct tvx_window *window;
	const struct level *level;
	struct tvx_entry *entries; /* of the block */
	size_t cap;
	struct fold fold;
	bool is_folded; /* as the window wants it: the level has this very shift */
	struct err *e;
};

static bool is_sound(const struct tvx *x, const struct block *b)
{
	atomic_bool *known = &x->is_sound[b - x->blocks];

	if (atomic_load_explicit(known, memory_order_relaxed))
		return true;
	if (b->crc != crc32c(0, x->data + b->at, b->len))
		return false;
	atomic_store_explicit(known, true, memory_order_relaxed);
	return true;
}

/* Decodes a block, or a part of it. Its entries are the carried ones, then its own. */
static int load_block(struct query *q, const struct block *b, const struct block_part *part,
		      size_t *n_out)
{
	const struct block_context in = { .kind = q->track->kind,
					  .is_raw = !q->level->shift,
					  .n_names = q->x->n_names };
	size_t n = (size_t)b->n + b->n_carried;

	if (!is_sound(q->x, b))
		return err_set(q->e, ERR_IO, "the index is damaged: the checksum of a block");
	if (n > b->len) /* two entries differ in a byte at least */
		return err_set(q->e, ERR_IO, "the index is damaged: the entries of a block");
	if (n > q->cap) {
		free(q->entries);
		q->entries = xmalloc(n * sizeof(*q->entries));
		q->cap = n;
	}
	return block_unpack(q->x->data + b->at, b, &in, part, q->entries, n_out, q->e);
}

/* The last of the level's blocks that begins at or before this time, or the first one. */
static uint32_t find_block(const struct query *q, int64_t ps)
{
	const struct block *blocks = q->x->blocks + q->level->block0;
	uint32_t low = 0, high = q->level->n_blocks;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (blocks[middle].start_ps <= ps)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The coarsest level that is at least as fine as the window wants. */
static const struct level *choose_level(const struct query *q)
{
	const struct level *l = q->x->levels + q->track->level0;

	for (uint32_t i = 1; i < q->track->n_levels && l[1].shift <= q->window->shift; i++)
		l++;
	return l;
}

static int add_block(struct query *q, const struct block *b, bool is_first)
{
	const struct block_part part = { .from_ps = q->window->from_ps,
					 .to_ps = q->window->to_ps,
					 .rows = q->window->rows,
					 .no_carried = !is_first };
	size_t n = 0;
	int rc = load_block(q, b, &part, &n);

	if (q->is_folded) {
		for (size_t i = 0; rc >= 0 && i < n; i++)
			rc = q->fold.each(q->fold.arg, &q->entries[i]);
		return rc < 0 ? rc : 0;
	}
	for (size_t i = 0; !rc && i < n; i++)
		rc = fold_add(&q->fold, &q->entries[i]);
	return rc;
}

/* Every sample of the window, and the one before it, which holds until the first. */
static int add_samples(struct query *q, const struct block *b, bool is_first)
{
	const struct tvx_entry *en, *end, *before = NULL;
	size_t n;
	int rc = load_block(q, b, NULL, &n);

	if (rc)
		return rc;
	end = q->entries + n;
	for (en = q->entries + b->n_carried; !rc && en < end; en++) {
		if (en->start_ps < q->window->from_ps) {
			before = en;
			continue;
		}
		if (before && is_first)
			rc = q->fold.each(q->fold.arg, before);
		before = NULL;
		if (en->start_ps >= q->window->to_ps)
			break;
		if (rc >= 0)
			rc = q->fold.each(q->fold.arg, en);
	}
	if (rc >= 0 && before && is_first)
		rc = q->fold.each(q->fold.arg, before);
	return rc < 0 ? rc : 0;
}

static int run(struct query *q)
{
	const struct block *blocks = q->x->blocks + q->level->block0;
	uint32_t first = find_block(q, q->window->from_ps);
	int rc = 0;

	for (uint32_t i = first; !rc && i < q->level->n_blocks; i++) {
		if (i > first && blocks[i].start_ps >= q->window->to_ps)
			break;
		rc = q->track->kind == TVX_COUNTER ? add_samples(q, &blocks[i], i == first)
						   : add_block(q, &blocks[i], i == first);
	}
	return rc ? rc : fold_end(&q->fold);
}

int tvx_query(const struct tvx *x, uint32_t track, const struct tvx_window *window,
	      tvx_entry_fn each, void *arg, struct err *e)
{
	struct query q = { .x = x, .window = window, .e = e };
	int rc;

	if (track >= x->n_tracks)
		return err_set(e, ERR_NOT_FOUND, "there is no track %" PRIu32, track);
	if (window->shift > SHIFT_MAX || window->from_ps > window->to_ps)
		return err_set(e, ERR_INVALID, "the window is malformed");
	q.track = &x->tracks[track];
	q.level = choose_level(&q);
	q.is_folded = q.level->shift && q.level->shift == window->shift;
	fold_init(&q.fold, window->shift, each, arg);
	rc = run(&q);
	fold_release(&q.fold);
	free(q.entries);
	return rc;
}

int tvx_event(const struct tvx *x, uint32_t track, uint64_t event, struct tvx_entry *out,
	      struct err *e)
{
	struct query q = { .x = x, .e = e };
	uint32_t low = 0, high;
	const struct block *b;
	size_t n;
	int rc;

	if (track >= x->n_tracks)
		return err_set(e, ERR_NOT_FOUND, "there is no track %" PRIu32, track);
	q.track = &x->tracks[track];
	q.level = x->levels + q.track->level0;
	b = x->blocks + q.level->block0;
	for (high = q.level->n_blocks; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (b[middle].first + b[middle].n <= event)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == q.level->n_blocks || event < b[low].first)
		return err_set(e, ERR_NOT_FOUND, "track %" PRIu32 " has no event %" PRIu64, track,
			       event);
	rc = load_block(&q, &b[low], NULL, &n);
	if (!rc)
		*out = q.entries[b[low].n_carried + (event - b[low].first)];
	free(q.entries);
	return rc;
}
