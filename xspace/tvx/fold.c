/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/tvx/fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/tvx/format.h"

void fold_init(struct fold *f, unsigned int shift, tvx_entry_fn each, void *arg)
{
	*f = (struct fold){ .shift = shift, .each = each, .arg = arg, .turn = 1 };
}

void fold_release(struct fold *f)
{
	free(f->held);
	free(f->slots);
}

int fold_end(struct fold *f)
{
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < f->n_held; i++)
		rc = f->each(f->arg, &f->held[i]);
	f->n_held = 0;
	f->turn++;
	return rc < 0 ? rc : 0;
}

static void hold(struct fold *f, const struct tvx_entry *en)
{
	if (f->n_held == f->held_cap) {
		f->held_cap = f->held_cap ? 2 * f->held_cap : 64;
		f->held = xrealloc(f->held, f->held_cap * sizeof(*f->held));
	}
	f->held[f->n_held++] = *en;
}

static struct fold_slot *slot_of(struct fold *f, uint32_t row)
{
	if (row >= f->n_slots) {
		size_t n = 2 * (size_t)row + 8;

		f->slots = xrealloc(f->slots, n * sizeof(*f->slots));
		memset(f->slots + f->n_slots, 0, (n - f->n_slots) * sizeof(*f->slots));
		f->n_slots = n;
	}
	return &f->slots[row];
}

static void merge(struct tvx_entry *to, const struct tvx_entry *en)
{
	int64_t reach = en->start_ps - to->start_ps + (int64_t)en->length_ps;
	int64_t length = (int64_t)to->length_ps;
	/* which of two is the longer one is as good as random: no branch */
	bool is_longer = en->longest_ps > to->longest_ps;
	const struct tvx_entry *longest = is_longer ? en : to;

	to->length_ps = (uint64_t)(reach > length ? reach : length);
	to->count += en->count;
	to->busy_ps += en->busy_ps;
	to->source = 0;
	to->longest_ps = longest->longest_ps;
	to->name = longest->name;
	to->event = longest->event;
}

int fold_add(struct fold *f, const struct tvx_entry *en)
{
	int64_t bin = en->start_ps >> f->shift;
	struct fold_slot *slot;
	int rc = 0;

	if (bin != f->bin) {
		rc = fold_end(f);
		f->bin = bin;
	}
	if (rc)
		return rc;
	if (en->longest_ps >> f->shift) {
		if (!f->n_held) { /* nothing is before it: it need not wait */
			rc = f->each(f->arg, en);
			return rc < 0 ? rc : 0;
		}
		hold(f, en);
		return 0;
	}
	slot = slot_of(f, en->row);
	if (slot->turn == f->turn) {
		merge(&f->held[slot->place], en);
		return 0;
	}
	*slot = (struct fold_slot){ f->turn, f->n_held };
	hold(f, en);
	return 0;
}
