/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts of a ring, and the blocks and file extents that cuts and ring share. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/tracer/ring_impl.h"
#include "base/file.h"
#include "base/mem.h"

/* ---- shared blocks, files and extents ---- */

void ring_block_unref(struct ring_block *b)
{
	if (b && !--b->refs)
		free(b);
}

void ring_file_unref(struct ring_file *f)
{
	if (!f || --f->refs)
		return;
	close(f->fd);
	free(f);
}

/* Frees the extent's bytes on the disk. If the file system cannot punch holes, they are freed with the file. */
void ring_extent_unref(struct ring_extent *x)
{
	if (!x || --x->refs)
		return;
	fallocate(x->file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)x->at,
		  (off_t)ring_whole_pages(x->len));
	ring_file_unref(x->file);
	free(x);
}

/* ---- cutting ---- */

/* Records of one chunk as they were when the cut was made. */
struct piece {
	struct ring_block *block; /* either `block` or `extent` is set */
	struct ring_extent *extent;
	size_t used, n;
	bool sorted;
};

struct ring_cut {
	int64_t t0_ns, t1_ns;
	size_t record_bytes;
	struct piece *pieces;
	size_t n;
};

/* The first chunk that may hold a record of `t0_ns` or later. */
static size_t first_chunk(const struct ring *r, int64_t t0_ns)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (r->chunks[mid].latest_ns < t0_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct ring_cut *ring_cut_new(struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns)
{
	struct ring_cut *cut = xcalloc(1, sizeof(*cut));
	size_t first = first_chunk(r, t0_raw_ns);

	cut->t0_ns = t0_raw_ns;
	cut->t1_ns = t1_raw_ns;
	cut->record_bytes = r->record_bytes;
	cut->pieces = xcalloc(r->n - first + 1, sizeof(*cut->pieces));
	for (size_t i = first; i < r->n; i++) {
		struct ring_chunk *c = &r->chunks[i];

		if (i && r->chunks[i - 1].latest_ns - r->late_ns >= t1_raw_ns)
			break;
		if (c->last_ns < t0_raw_ns || c->first_ns >= t1_raw_ns)
			continue;
		if (c->block)
			c->block->refs++;
		else
			c->extent->refs++;
		cut->pieces[cut->n++] = (struct piece){ .block = c->block,
							.extent = c->extent,
							.used = c->used,
							.n = c->n,
							.sorted = c->sorted };
	}
	return cut;
}

void ring_cut_free(struct ring_cut *cut)
{
	if (!cut)
		return;
	for (size_t i = 0; i < cut->n; i++) {
		ring_block_unref(cut->pieces[i].block);
		ring_extent_unref(cut->pieces[i].extent);
	}
	free(cut->pieces);
	free(cut);
}

static int64_t time_at(const uint8_t *data)
{
	int64_t raw_ns;

	memcpy(&raw_ns, data, sizeof(raw_ns));
	return raw_ns;
}

/* The offset of the first record at or after `t0_ns`; the `n` records are sorted by time, each `stride` bytes long. */
static size_t search(const uint8_t *data, size_t n, size_t stride, int64_t t0_ns)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (time_at(data + mid * stride) < t0_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low * stride;
}

static size_t stride(const struct ring_cut *cut)
{
	return sizeof(int64_t) + ring_round8(cut->record_bytes);
}

static size_t piece_bytes(const struct ring_cut *cut, const struct piece *p)
{
	if (!p->sorted || !cut->record_bytes)
		return p->used;
	return search(p->block->data, p->n, stride(cut), cut->t1_ns) -
	       search(p->block->data, p->n, stride(cut), cut->t0_ns);
}

uint64_t ring_cut_bytes(const struct ring_cut *cut)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < cut->n; i++) {
		if (cut->pieces[i].extent)
			return UINT64_MAX;
		sum += piece_bytes(cut, &cut->pieces[i]);
	}
	return sum;
}

static size_t record_at(const struct ring_cut *cut, const uint8_t *data, struct ring_record *rec)
{
	size_t header = sizeof(int64_t);
	uint64_t len = cut->record_bytes;

	if (!len) {
		memcpy(&len, data + sizeof(int64_t), sizeof(len));
		header += sizeof(len);
	}
	*rec = (struct ring_record){ .raw_ns = time_at(data),
				     .data = data + header,
				     .len = (size_t)len };
	return header + ring_round8(rec->len);
}

/* False if fn returned false. */
static bool each_in(const struct ring_cut *cut, const struct piece *p, const uint8_t *data,
		    bool (*fn)(void *arg, const struct ring_record *record), void *arg)
{
	size_t at = 0;

	if (p->sorted && cut->record_bytes)
		at = search(data, p->n, stride(cut), cut->t0_ns);
	while (at < p->used) {
		struct ring_record rec;

		at += record_at(cut, data + at, &rec);
		if (rec.raw_ns >= cut->t1_ns && p->sorted)
			break;
		if (rec.raw_ns >= cut->t0_ns && rec.raw_ns < cut->t1_ns && !fn(arg, &rec))
			return false;
	}
	return true;
}

uint64_t ring_cut_each(const struct ring_cut *cut,
		       bool (*fn)(void *arg, const struct ring_record *record), void *arg)
{
	uint64_t unread = 0;
	bool more = true;

	for (size_t i = 0; i < cut->n && more; i++) {
		const struct piece *p = &cut->pieces[i];
		uint8_t *bytes;

		if (p->block) {
			more = each_in(cut, p, p->block->data, fn, arg);
			continue;
		}
		bytes = xmalloc(p->used);
		if (!file_read_exact(p->extent->file->fd, p->extent->at, bytes, p->used, "the ring",
				     NULL))
			more = each_in(cut, p, bytes, fn, arg);
		else
			unread += p->n;
		free(bytes);
	}
	return unread;
}

static bool stop_at_first(void *arg, const struct ring_record *record)
{
	(void)record;
	*(bool *)arg = false;
	return false;
}

bool ring_cut_is_empty(const struct ring_cut *cut)
{
	bool empty = true;
	uint64_t unread = ring_cut_each(cut, stop_at_first, &empty);

	return empty && !unread;
}

struct tally {
	uint64_t n, limit;
};

static bool count_to_limit(void *arg, const struct ring_record *record)
{
	struct tally *t = arg;

	(void)record;
	return ++t->n <= t->limit;
}

bool ring_cut_has_more(const struct ring_cut *cut, uint64_t n)
{
	struct tally t = { .limit = n };

	for (size_t i = 0; i < cut->n && t.n <= n; i++) {
		const struct piece *p = &cut->pieces[i];

		if (p->block)
			each_in(cut, p, p->block->data, count_to_limit, &t);
		else
			t.n += p->n;
	}
	return t.n > n;
}
