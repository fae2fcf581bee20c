/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of any XSpace holds all its events at every zoom. An index whose bytes are wrong, though all its checksums
 * are right, is read without harm.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "xspace/tvx/format.h"
#include "xspace/tvx/tvx.h"

#define CHECK(cond) \
	do { \
		if (!(cond)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int add_count(void *arg, const struct tvx_entry *en)
{
	uint64_t *count = arg;

	*count += en->count;
	return 0;
}

static void ignore_stat(void *arg, const char *key, size_t len, const struct xs_stat *s)
{
	uint64_t *sum = arg;

	*sum += len ? (uint8_t)key[len - 1] : 0;
	*sum += s->len ? s->bytes[s->len - 1] : 0;
}

static void read_event(const struct tvx *x, const struct xs_source *in, uint32_t track,
		       bool is_sound)
{
	struct tvx_detail d = { BUF_INIT, BUF_INIT };
	struct tvx_entry en;
	uint64_t sum = 0;
	int rc = tvx_event(x, track, 0, &en, NULL);

	if (!rc)
		rc = tvx_detail(x, in, track, &en, &d, ignore_stat, &sum, NULL);
	/* the metadata that an event names may be malformed where the names of events are not */
	CHECK(!rc || !is_sound || rc == ERR_INVALID || rc == ERR_LIMIT);
	buf_release(&d.name);
	buf_release(&d.display_name);
}

/* Reads every track at several zooms. */
static void read_index(const struct tvx *x, const struct xs_source *in, bool is_sound)
{
	const struct tvx_track *tracks;
	const struct tvx_flow *ends;
	size_t n = tvx_tracks(x, &tracks), len;

	for (uint32_t t = 0; t < n && t < 64; t++) {
		tvx_name(x, tracks[t].name, &len);
		for (unsigned int shift = 0; shift <= 62; shift += 31) {
			const struct tvx_window w = { INT64_MIN / 4, INT64_MAX / 4, shift, 0 };
			uint64_t count = 0;
			int rc = tvx_query(x, t, &w, add_count, &count, NULL);

			CHECK(!is_sound || (!rc && count == tracks[t].events));
		}
		if (tracks[t].events)
			read_event(x, in, t, is_sound);
	}
	tvx_flow_ends(x, 1, &ends);
}

/* The index of a sound XSpace: with nesting, flows and counters. */
static const struct buf *make_sample(struct buf *space)
{
	static struct buf index, sample;
	struct xs_builder *b;
	struct xs_source in;
	struct xs_sink sink;

	if (!index.len) {
		b = xs_builder_new();
		xs_plane(b, 1, "plane");
		xs_line(b, 1, "line", 0);
		for (int i = 0; i < 3000; i++) {
			xs_event(b, i % 3 ? "a" : "b", 100 * (i / 3), i % 3 ? 50 : 900);
			xs_stat_uint(b, "flow", 4 | (1 + i % 2));
		}
		xs_line(b, 2, "_counters_", 0);
		xs_event(b, "c", 5, 0);
		xs_stat_double(b, "v", 1.5);
		xs_finish(b, &sample);
		xs_builder_free(b);
		in = xs_source_memory(sample.data, sample.len);
		sink = xs_sink_buf(&index);
		CHECK(!tvx_build(&in, NULL, &sink, NULL));
	}
	*space = sample;
	return &index;
}

/* Makes every checksum right again. */
static void mend_sums(uint8_t *bytes, size_t len)
{
	struct footer f;
	uint64_t blocks_at;

	memcpy(&f, bytes + len - sizeof(f), sizeof(f));
	if (f.tables_at > len - sizeof(f))
		return;
	blocks_at = f.tables_at + (uint64_t)f.n_planes * sizeof(struct tvx_plane) +
		    (uint64_t)f.n_tracks * sizeof(struct tvx_track) +
		    (uint64_t)f.n_totals * sizeof(struct tvx_total) +
		    (uint64_t)f.n_flows * sizeof(struct tvx_flow) +
		    (uint64_t)f.n_levels * sizeof(struct level);
	for (uint32_t i = 0; i < f.n_blocks && blocks_at + (i + 1) * sizeof(struct block) <= len;
	     i++) {
		uint8_t *at = bytes + blocks_at + i * sizeof(struct block);
		struct block b;

		memcpy(&b, at, sizeof(b));
		if (b.at <= len && b.len <= len - b.at)
			b.crc = crc32c(0, bytes + b.at, b.len);
		memcpy(at, &b, sizeof(b));
	}
	f.tables_crc = crc32c(0, bytes + f.tables_at, len - sizeof(f) - f.tables_at);
	f.crc = crc32c(0, &f, offsetof(struct footer, crc));
	memcpy(bytes + len - sizeof(f), &f, sizeof(f));
}

/* The input is a list of changes: four bytes say where (from the end, where the tables are), one says what. */
static void read_changed(const uint8_t *data, size_t size)
{
	struct buf space;
	const struct buf *index = make_sample(&space);
	struct xs_source in = xs_source_memory(space.data, space.len);
	uint8_t *copy = xmalloc(index->len);
	struct tvx *x;

	memcpy(copy, index->data, index->len);
	for (size_t i = 0; i + 5 <= size; i += 5) {
		uint32_t at;

		memcpy(&at, data + i, sizeof(at));
		copy[index->len - 1 - at % index->len] ^= data[i + 4];
	}
	mend_sums(copy, index->len);
	if (!tvx_open(&x, copy, index->len, space.len, NULL)) {
		read_index(x, &in, false);
		tvx_close(x);
	}
	free(copy);
}

static void read_built(const uint8_t *data, size_t size)
{
	struct xs_source in = xs_source_memory(data, size);
	const struct tvx_build how = { .in_two_threads = true };
	struct buf out = BUF_INIT, same = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out), second = xs_sink_buf(&same);
	struct tvx *x;
	int rc = tvx_build(&in, NULL, &sink, NULL);

	CHECK(tvx_build(&in, &how, &second, NULL) == rc);
	CHECK(xs_check(&in, NULL) || !rc || rc == ERR_LIMIT);
	if (!rc) {
		CHECK(out.len == same.len && !memcmp(out.data, same.data, out.len));
		CHECK(!tvx_open(&x, out.data, out.len, size, NULL));
		read_index(x, &in, true);
		tvx_close(x);
	}
	buf_release(&out);
	buf_release(&same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_built(data, size);
	read_changed(data, size);
	return 0;
}
