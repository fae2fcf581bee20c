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

/* Decodes a block into its n_carried + n entries. ERR_INVALID if the bytes are no such block, or name what is not there. */
MUST_CHECK int block_unpack(const uint8_t *data, const struct block *b,
			    const struct block_context *in, struct tvx_entry *out, struct err *e);

#endif
