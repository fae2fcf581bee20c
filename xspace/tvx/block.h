/* SPDX-License-Identifier: Apache-2.0 */
/* Entries as the bytes of a block, and back. Private to xspace/tvx/. */
#ifndef XSPACE_TVX_BLOCK_H
#define XSPACE_TVX_BLOCK_H

#include "base/buf.h"
#include "xspace/tvx/format.h"

/* Appends the bytes of a block whose first `n_carried` entries come from earlier blocks. `is_raw`: the entries are events:
 * what follows from their length or their place is not stored. */
void block_pack(struct buf *out, const struct tvx_entry *entries, size_t n_carried, size_t n,
		bool is_raw);

/* What a block is a part of. */
struct block_context {
	enum tvx_kind kind;
	bool is_raw;
	uint32_t n_names;
};

/* Which of its entries are decoded: the others cost two numbers each. */
struct block_part {
	int64_t from_ps, to_ps; /* those that overlap [from_ps, to_ps) */
	uint32_t rows; /* and are in the first so many rows; 0 = in any */
	bool no_carried; /* and are the block's own */
};

/* Decodes a block, or the wanted part of it (NULL = all), into at most n_carried + n entries, and says how many. ERR_IO if the bytes are no
 * such block, or name what is not there. */
MUST_CHECK int block_unpack(const uint8_t *data, const struct block *b,
			    const struct block_context *in, const struct block_part *part,
			    struct tvx_entry *out, size_t *n_out, struct err *e);

#endif
