/* SPDX-License-Identifier: Apache-2.0 */
/* The tables behind the blocks: of a whole index, and of a part of one. */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "xspace/tvx/track.h"

#define DIGIT_BITS 11

/* By id; those of one id stay in their order. */
static void sort_flows(struct table *t)
{
	struct tvx_flow *in = t->items, *out = xmalloc((t->n + 1) * sizeof(*out)), *swap;
	uint64_t differ = 0;

	for (size_t i = 0; i < t->n; i++)
		differ |= in[i].id ^ in[0].id;
	for (unsigned int shift = 0; shift < 64; shift += DIGIT_BITS) {
		size_t at[1 << DIGIT_BITS] = { 0 }, sum = 0, count;

		if (!(differ >> shift & (ARRAY_SIZE(at) - 1)))
			continue;
		for (size_t i = 0; i < t->n; i++)
			at[in[i].id >> shift & (ARRAY_SIZE(at) - 1)]++;
		for (size_t d = 0; d < ARRAY_SIZE(at); d++) {
			count = at[d];
			at[d] = sum;
			sum += count;
		}
		for (size_t i = 0; i < t->n; i++)
			out[at[in[i].id >> shift & (ARRAY_SIZE(at) - 1)]++] = in[i];
		swap = in;
		in = out;
		out = swap;
	}
	t->items = in;
	free(out);
}

#define PARTS 9

struct part {
	const void *data;
	size_t len;
};

static void list_parts(const struct tvx_writer *w, const struct footer *foot,
		       struct part out[PARTS])
{
	static const uint8_t zeros[8];
	const struct part parts[PARTS] = {
		{ w->planes.items, w->planes.n * sizeof(struct tvx_plane) },
		{ w->tracks.items, w->tracks.n * sizeof(struct tvx_track) },
		{ w->totals.items, w->totals.n * sizeof(struct tvx_total) },
		{ w->flows.items, foot->n_flows * sizeof(struct tvx_flow) },
		{ w->levels.items, w->levels.n * sizeof(struct level) },
		{ w->blocks.items, w->blocks.n * sizeof(struct block) },
		{ w->names.ends, w->names.n * sizeof(uint64_t) },
		{ w->names.text.data, w->names.text.len },
		{ zeros, -w->names.text.len & 7 },
	};

	memcpy(out, parts, sizeof(parts));
}

/* The footer has the number of flows; with it the tables and itself go to `out`. */
static int write_tables(const struct tvx_writer *w, struct footer *foot, const struct xs_sink *out,
			struct err *e)
{
	struct part parts[PARTS];
	int rc = 0;

	list_parts(w, foot, parts);
	foot->tables_at = w->at;
	foot->source_bytes = w->source_bytes;
	foot->string_bytes = w->names.text.len;
	foot->n_planes = (uint32_t)w->planes.n;
	foot->n_tracks = (uint32_t)w->tracks.n;
	foot->n_totals = (uint32_t)w->totals.n;
	foot->n_levels = (uint32_t)w->levels.n;
	foot->n_blocks = (uint32_t)w->blocks.n;
	foot->n_names = w->names.n;
	foot->version = TVX_VERSION;
	memcpy(foot->magic, TVX_MAGIC, sizeof(foot->magic));
	for (size_t i = 0; !rc && i < PARTS; i++) {
		if (!parts[i].len)
			continue;
		foot->tables_crc = crc32c(foot->tables_crc, parts[i].data, parts[i].len);
		rc = out->write(out->arg, parts[i].data, parts[i].len, e);
	}
	foot->crc = crc32c(0, foot, offsetof(struct footer, crc));
	return rc ? rc : out->write(out->arg, foot, sizeof(*foot), e);
}

int tvx_write_tables(struct tvx_writer *w, struct err *e)
{
	static const uint8_t zeros[8];
	struct footer foot = { .n_flows = (uint32_t)w->flows.n,
			       .flows_left_out = w->flows_left_out };
	int rc = tvx_write(w, zeros, -w->at & 7, e);

	sort_flows(&w->flows);
	return rc ? rc : write_tables(w, &foot, w->sink, e);
}

int tvx_write_part(const struct tvx_writer *w, struct buf *tables, uint64_t *blocks_len,
		   struct err *e)
{
	struct footer foot = { .flows_left_out = w->flows_left_out + w->flows.n };
	const struct xs_sink sink = xs_sink_buf(tables);
	struct part parts[PARTS];
	size_t bytes = sizeof(foot);

	list_parts(w, &foot, parts);
	for (size_t i = 0; i < PARTS; i++)
		bytes += parts[i].len;
	buf_reserve_all(tables, bytes);
	*blocks_len = w->at;
	return write_tables(w, &foot, &sink, e);
}
