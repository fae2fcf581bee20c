/* SPDX-License-Identifier: Apache-2.0 */
/* An open index. Private to xspace/tvx/. */
#ifndef XSPACE_TVX_INDEX_H
#define XSPACE_TVX_INDEX_H

#include <stdatomic.h>

#include "xspace/tvx/format.h"

struct tvx {
	const uint8_t *data;
	uint64_t tables_at, string_bytes, flows_left_out;
	const struct tvx_plane *planes;
	const struct tvx_track *tracks;
	const struct tvx_total *totals;
	const struct tvx_flow *flows;
	const struct level *levels;
	const struct block *blocks;
	const uint64_t *ends; /* of names, in `strings` */
	const char *strings;
	atomic_bool *is_sound; /* of each block: its checksum was right when it was first read */
	uint32_t n_planes, n_tracks, n_totals, n_flows, n_levels, n_blocks, n_names;
};

#endif
