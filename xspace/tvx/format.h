/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an index, little endian: blocks, then the tables in the order of `struct footer`, then the footer.
 * docs/format.md explains them. Private to xspace/tvx/.
 */
#ifndef XSPACE_TVX_FORMAT_H
#define XSPACE_TVX_FORMAT_H

#include <stdint.h>

#include "xspace/tvx/tvx.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the tables of an index are read as they are: this needs a little-endian machine"
#endif

#define TVX_MAGIC     "TUTTIVX\n"
#define BLOCK_ENTRIES 1024 /* of a block, beside those that are carried into it */
#define BLOCK_MAX     (1u << 26) /* entries; a reader refuses more */

struct level {
	uint32_t shift; /* 0 = the events themselves */
	uint32_t block0, n_blocks;
	uint32_t unused;
	uint64_t entries;
};

/*
 * A block holds first the entries of earlier blocks that have not ended when it begins: a reader of any window
 * begins with one block.
 */
struct block {
	uint64_t at; /* in the file */
	uint64_t first; /* number of its first own entry in the level */
	int64_t start_ps; /* of its first own entry */
	uint32_t len;
	uint32_t n, n_carried; /* n without the carried ones */
	uint32_t crc; /* CRC-32C of its bytes */
};

enum column {
	COL_START,
	COL_LENGTH,
	COL_NAME,
	COL_ROW,
	COL_REF,
	COL_COUNT,
	COL_BUSY,
	COL_LONGEST,
	COLUMNS
};

/*
 * A block's bytes: this head, then COLUMNS columns of (n_carried + n) numbers of `width` bytes each; of events
 * themselves the numbers of the carried ones, 8 bytes each (those of the others are their places); then 8 bytes.
 */
struct block_head {
	uint64_t base[COLUMNS]; /* added to each number of the column */
	uint8_t width[COLUMNS]; /* 0 to 8 */
};
#define BLOCK_TAIL 8 /* a reader may load 8 bytes at any number */

struct footer {
	uint64_t tables_at; /* a multiple of 8 */
	uint64_t source_bytes;
	uint64_t string_bytes;
	uint64_t flows_left_out;
	uint32_t n_planes, n_tracks, n_totals, n_flows, n_levels, n_blocks, n_names;
	uint32_t version;
	uint32_t tables_crc; /* CRC-32C of the tables */
	uint32_t crc; /* CRC-32C of the footer up to here */
	char magic[8];
};

_Static_assert(sizeof(struct tvx_plane) == 32, "struct tvx_plane");
_Static_assert(sizeof(struct tvx_track) == 96, "struct tvx_track");
_Static_assert(sizeof(struct tvx_total) == 56, "struct tvx_total");
_Static_assert(sizeof(struct tvx_flow) == 16, "struct tvx_flow");
_Static_assert(sizeof(struct level) == 24, "struct level");
_Static_assert(sizeof(struct block) == 40, "struct block");
_Static_assert(sizeof(struct block_head) == 72, "struct block_head");
_Static_assert(sizeof(struct footer) == 80, "struct footer");

/* For sorting and for differences: a signed time as a number that has the same order. */
static inline uint64_t time_order(int64_t ps)
{
	return (uint64_t)ps ^ UINT64_C(1) << 63;
}

static inline int64_t order_time(uint64_t order)
{
	return (int64_t)(order ^ UINT64_C(1) << 63);
}

/* An instant takes 1 ps of its row. */
static inline int64_t entry_end(const struct tvx_entry *en)
{
	return en->start_ps + (int64_t)(en->length_ps ? en->length_ps : 1);
}

/* Times are within +-TIME_MAX, and so are ends: no sum or difference of them overflows. */
#define TIME_MAX (INT64_C(1) << 60)

#endif
