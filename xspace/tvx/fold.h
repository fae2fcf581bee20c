/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds entries, which come in order of their starts: of each row those that begin in the same 2^shift ps and are
 * shorter than that become one entry. Building levels and thinning a query are the same work. Private to xspace/tvx/.
 */
#ifndef XSPACE_TVX_FOLD_H
#define XSPACE_TVX_FOLD_H

#include "xspace/tvx/tvx.h"

struct fold_slot {
	uint64_t turn; /* the place is valid in this turn only */
	size_t place;
};

struct fold {
	unsigned int shift;
	tvx_entry_fn each; /* gets the folded entries, in order of their starts */
	void *arg;
	int64_t bin;
	uint64_t turn;
	struct tvx_entry *held; /* the entries that begin in `bin` */
	size_t n_held, held_cap;
	struct fold_slot *slots; /* by row: where in `held` its folded entry is */
	size_t n_slots;
};

void fold_init(struct fold *f, unsigned int shift, tvx_entry_fn each, void *arg);
void fold_release(struct fold *f);
MUST_CHECK int fold_add(struct fold *f,
			const struct tvx_entry *en); /* the result of `each` if negative */
MUST_CHECK int fold_end(struct fold *f);

#endif
