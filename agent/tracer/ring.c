/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/ring_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define CHUNK_BYTES_MAX	   ((size_t)64 << 10)
#define CHUNKS_MIN	   16 /* chunks of a full ring: it drops a sixteenth at a time */
#define CHUNKS_PER_RING_NS 8 /* a chunk covers at most an eighth of the ring's seconds */

/* Times beyond this are refused, because sums with them could overflow. */
#define TIME_MAX (INT64_MAX / 4)

/* ---- the ring ---- */

struct ring *ring_new(const struct ring_conf *conf)
{
	struct ring *r = xcalloc(1, sizeof(*r));
	uint64_t chunk;

	r->limits = conf->limits;
	if (!r->limits.bytes)
		r->limits.bytes = RING_BYTES_DEFAULT;
	if (r->limits.bytes < RING_BYTES_MIN)
		r->limits.bytes = RING_BYTES_MIN;
	if (!r->limits.ns)
		r->limits.ns = RING_NS_DEFAULT;
	chunk = r->limits.bytes / CHUNKS_MIN;
	r->chunk_bytes = chunk < CHUNK_BYTES_MAX ? (size_t)chunk : CHUNK_BYTES_MAX;
	r->max_file_bytes = conf->file_bytes ? conf->file_bytes : RING_FILE_BYTES_DEFAULT;
	r->record_bytes = conf->record_bytes;
	r->late_ns = conf->late_ns;
	r->begin_ns = r->latest_ns = conf->begin_raw_ns;
	r->gaps = xcalloc(RING_LOSSES_MAX, sizeof(*r->gaps));
	return r;
}

/* The memory of a block, header included. */
static uint64_t block_bytes(const struct ring_block *b)
{
	return sizeof(*b) + b->cap;
}

static void chunk_release(struct ring *r, struct ring_chunk *c)
{
	if (c->block)
		r->bytes -= block_bytes(c->block);
	if (c->extent)
		r->file_bytes -= ring_whole_pages(c->extent->len);
	ring_block_unref(c->block);
	ring_extent_unref(c->extent);
}

void ring_free(struct ring *r)
{
	if (!r)
		return;
	while (r->holds)
		ring_remove_hold(r, r->holds->hold.owner);
	for (size_t i = 0; i < r->n; i++)
		chunk_release(r, &r->chunks[i]);
	ring_file_unref(r->file);
	free(r->chunks);
	free(r->gaps);
	free(r);
}

/* What it may keep now. */
static uint64_t max_bytes(const struct ring *r)
{
	return r->limits.halvings ? r->limits.bytes >> *r->limits.halvings : r->limits.bytes;
}

static int64_t max_ns(const struct ring *r)
{
	return r->limits.halvings ? r->limits.ns >> *r->limits.halvings : r->limits.ns;
}

int64_t ring_begin(const struct ring *r)
{
	return r->begin_ns;
}

bool ring_is_empty(const struct ring *r)
{
	return !r->n;
}

uint64_t ring_bytes(const struct ring *r)
{
	return r->bytes;
}

uint64_t ring_file_bytes(const struct ring *r)
{
	return r->file_bytes;
}

/* ---- losses ---- */

/* When the array is full, the two oldest gaps become one. */
static void add_gap(struct ring *r, const struct ring_loss *gap)
{
	struct ring_loss *last = r->n_gaps ? &r->gaps[r->n_gaps - 1] : NULL;

	if (last && last->from_raw_ns == gap->from_raw_ns && last->to_raw_ns == gap->to_raw_ns) {
		last->count += gap->count;
		return;
	}
	if (r->n_gaps == RING_LOSSES_MAX) {
		struct ring_loss *a = &r->gaps[0], *b = &r->gaps[1];

		b->from_raw_ns = a->from_raw_ns < b->from_raw_ns ? a->from_raw_ns : b->from_raw_ns;
		b->to_raw_ns = a->to_raw_ns > b->to_raw_ns ? a->to_raw_ns : b->to_raw_ns;
		b->count += a->count;
		memmove(a, b, --r->n_gaps * sizeof(*a));
	}
	r->gaps[r->n_gaps++] = *gap;
}

void ring_add_gap(struct ring *r, int64_t from_raw_ns, int64_t to_raw_ns, uint64_t count)
{
	bool in_order = from_raw_ns <= to_raw_ns;

	add_gap(r, &(struct ring_loss){ in_order ? from_raw_ns : to_raw_ns,
					in_order ? to_raw_ns : from_raw_ns, count });
}

void ring_add_loss(struct ring *r, int64_t raw_ns, uint64_t count)
{
	ring_add_gap(r, raw_ns, raw_ns, count);
}

size_t ring_losses(const struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns,
		   struct ring_loss out[RING_LOSSES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_gaps; i++) {
		const struct ring_loss *g = &r->gaps[i];

		if (g->from_raw_ns < t1_raw_ns && g->to_raw_ns >= t0_raw_ns)
			out[n++] = *g;
	}
	return n;
}

uint64_t ring_lost(const struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns)
{
	struct ring_loss losses[RING_LOSSES_MAX];
	size_t n = ring_losses(r, t0_raw_ns, t1_raw_ns, losses);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += losses[i].count;
	return sum;
}

bool ring_missed_half(const struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns, uint64_t *missed)
{
	int64_t part_ns = 0; /* of the window, that the gaps which meet up to here cover */
	bool is_half = false;
	double part = 0, sum = 0;

	for (size_t i = 0; i < r->n_gaps; i++) {
		const struct ring_loss *g = &r->gaps[i];
		int64_t from_ns = g->from_raw_ns > t0_raw_ns ? g->from_raw_ns : t0_raw_ns;
		int64_t to_ns = g->to_raw_ns < t1_raw_ns ? g->to_raw_ns : t1_raw_ns;

		if (!i || g->from_raw_ns != g[-1].to_raw_ns) {
			part_ns = 0;
			part = 0;
		}
		if (from_ns >= to_ns)
			continue;
		part_ns += to_ns - from_ns;
		part += (double)g->count * (double)(to_ns - from_ns) /
			(double)(g->to_raw_ns - g->from_raw_ns);
		if (part_ns < (t1_raw_ns - t0_raw_ns) / 2)
			continue;
		is_half = true;
		sum += part;
		part = 0;
	}
	*missed = (uint64_t)(sum + 0.5);
	return is_half;
}

/* Forgets gaps that are older than the ring's seconds and than all holds: no window can need them. */
static void drop_old_gaps(struct ring *r)
{
	int64_t from_ns = r->latest_ns - max_ns(r);
	size_t kept = 0;

	if (r->begin_ns < from_ns)
		from_ns = r->begin_ns;
	for (const struct ring_hold_entry *h = r->holds; h; h = h->next)
		if (h->hold.from_raw_ns < from_ns)
			from_ns = h->hold.from_raw_ns;
	for (size_t i = 0; i < r->n_gaps; i++)
		if (r->gaps[i].to_raw_ns >= from_ns)
			r->gaps[kept++] = r->gaps[i];
	r->n_gaps = kept;
}

/* ---- the file ---- */

static bool is_needed(const struct ring *r, const struct ring_chunk *c)
{
	for (const struct ring_hold_entry *h = r->holds; h; h = h->next)
		if (h->hold.from_raw_ns <= c->latest_ns)
			return true;
	return false;
}

/* The file has no name, so the kernel removes it when the agent ends, even by a kill. */
static struct ring_file *file_open(const char *dir)
{
	char *path = xasprintf("%s/.ring", dir);
	struct ring_file *f = NULL;
	int fd;

	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0) {
		unlink(path);
		f = xcalloc(1, sizeof(*f));
		*f = (struct ring_file){ .refs = 1, .fd = fd };
	}
	free(path);
	return f;
}

/* Reserves file space for the chunk in every hold that needs it. Returns the folder of one that succeeded,
 * or NULL. */
static const char *reserve_file_space(struct ring *r, const struct ring_chunk *c)
{
	uint64_t bytes = ring_whole_pages(c->used);
	const char *dir = NULL;

	if (r->file_bytes + bytes > r->max_file_bytes)
		return NULL;
	for (struct ring_hold_entry *h = r->holds; h; h = h->next)
		if (h->hold.from_raw_ns <= c->latest_ns &&
		    h->hold.reserve_bytes(h->hold.arg, bytes))
			dir = h->hold.dir;
	return dir;
}

/* Moves the chunk's records to the file; false if they cannot be kept. */
static bool chunk_to_file(struct ring *r, struct ring_chunk *c)
{
	const char *dir = reserve_file_space(r, c);
	struct ring_extent *x;

	if (!dir)
		return false;
	if (!r->file)
		r->file = file_open(dir);
	if (!r->file ||
	    file_write_at(r->file->fd, r->file->end, c->block->data, c->used, "the ring", NULL))
		return false;
	x = xmalloc(sizeof(*x));
	*x = (struct ring_extent){ .refs = 1, .file = r->file, .at = r->file->end, .len = c->used };
	r->file->refs++;
	r->file->end += ring_whole_pages(c->used);
	r->bytes -= block_bytes(c->block);
	r->file_bytes += ring_whole_pages(c->used);
	ring_block_unref(c->block);
	c->block = NULL;
	c->extent = x;
	return true;
}

/* ---- removing chunks ---- */

static void close_empty_file(struct ring *r)
{
	if (r->n_filed)
		return;
	ring_file_unref(r->file);
	r->file = NULL;
}

static void remove_chunks(struct ring *r, size_t at, size_t n)
{
	for (size_t i = at; i < at + n; i++) {
		r->n_filed -= r->chunks[i].extent != NULL;
		chunk_release(r, &r->chunks[i]);
	}
	r->n -= n;
	memmove(r->chunks + at, r->chunks + at + n, (r->n - at) * sizeof(*r->chunks));
	close_empty_file(r);
}

static void drop_oldest(struct ring *r, size_t n)
{
	if (!n)
		return;
	r->begin_ns = r->chunks[n - 1].latest_ns + 1;
	remove_chunks(r, 0, n);
	drop_old_gaps(r);
}

static void add_chunk_gap(struct ring *r, const struct ring_chunk *c)
{
	add_gap(r, &(struct ring_loss){
			   .from_raw_ns = c->first_ns, .to_raw_ns = c->last_ns, .count = c->n });
}

/* Counts the chunk as lost for every run that needs it. */
static void count_lost_for_holds(struct ring *r, const struct ring_chunk *c)
{
	for (struct ring_hold_entry *h = r->holds; h; h = h->next)
		if (h->hold.from_raw_ns <= c->latest_ns)
			h->lost += c->n;
}

/* Moves the oldest chunk in memory to the file if a run needs it, or drops it. */
static void move_or_drop_oldest(struct ring *r)
{
	size_t at = r->n_filed;
	struct ring_chunk *c = &r->chunks[at];
	bool needed = is_needed(r, c);

	if (needed && chunk_to_file(r, c)) {
		r->n_filed++;
		return;
	}
	if (needed)
		count_lost_for_holds(r, c);
	if (needed || c->latest_ns >= r->latest_ns - max_ns(r))
		add_chunk_gap(r, c);
	if (needed && at)
		remove_chunks(r, at, 1);
	else
		drop_oldest(r, at + 1);
}

void ring_drop_half(struct ring *r)
{
	size_t n = (r->n + 1) / 2;

	for (size_t i = 0; i < n; i++)
		add_chunk_gap(r, &r->chunks[i]);
	drop_oldest(r, n);
}

/* ---- adding records ---- */

/* Records of one size are stored as time, data; others as time, length, data. */
static size_t header_bytes(const struct ring *r)
{
	return r->record_bytes ? sizeof(int64_t) : sizeof(int64_t) + sizeof(uint64_t);
}

/* Frees the memory that a full chunk does not use. */
static void shrink_block(struct ring *r, struct ring_chunk *c)
{
	struct ring_block *b = c->block;

	if (b->refs > 1)
		return; /* a worker may read it, so it must not move */
	r->bytes -= block_bytes(b);
	b->cap = ring_round8(c->used);
	c->block = xrealloc(b, sizeof(*b) + b->cap);
	r->bytes += block_bytes(c->block);
}

static struct ring_chunk *push_chunk(struct ring *r, size_t need)
{
	struct ring_chunk *c;
	struct ring_block *b;
	size_t cap = need > r->chunk_bytes - sizeof(*b) ? need : r->chunk_bytes - sizeof(*b);

	while (r->n > r->n_filed && r->bytes + sizeof(*b) + cap > max_bytes(r))
		move_or_drop_oldest(r);
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 32;
		r->chunks = xrealloc(r->chunks, r->cap * sizeof(*r->chunks));
	}
	b = xmalloc(sizeof(*b) + cap);
	b->refs = 1;
	b->cap = cap;
	r->bytes += block_bytes(b);
	c = &r->chunks[r->n++];
	*c = (struct ring_chunk){ .block = b,
				  .first_ns = INT64_MAX,
				  .last_ns = INT64_MIN,
				  .opened_ns = r->latest_ns,
				  .sorted = true };
	return c;
}

/* A chunk with `need` bytes free: the newest, or a new one. */
static struct ring_chunk *chunk_for(struct ring *r, size_t need)
{
	struct ring_chunk *c = r->n > r->n_filed ? &r->chunks[r->n - 1] : NULL;

	if (c && c->used + need <= c->block->cap &&
	    r->latest_ns - c->opened_ns <= max_ns(r) / CHUNKS_PER_RING_NS)
		return c;
	if (c)
		shrink_block(r, c);
	return push_chunk(r, need);
}

static void move_or_drop_old(struct ring *r)
{
	while (r->n > r->n_filed + 1 && r->chunks[r->n_filed].latest_ns < r->latest_ns - max_ns(r))
		move_or_drop_oldest(r);
}

static void append(struct ring_chunk *c, size_t header, const struct ring_record *rec)
{
	const uint64_t head[] = { (uint64_t)rec->raw_ns, rec->len };

	memcpy(c->block->data + c->used, head, header);
	if (rec->len)
		memcpy(c->block->data + c->used + header, rec->data, rec->len);
	c->used += header + ring_round8(rec->len);
	c->n++;
	if (rec->raw_ns < c->last_ns)
		c->sorted = false;
	else
		c->last_ns = rec->raw_ns;
	if (rec->raw_ns < c->first_ns)
		c->first_ns = rec->raw_ns;
}

bool ring_add(struct ring *r, int64_t raw_ns, const void *data, size_t len)
{
	size_t header = header_bytes(r);
	struct ring_chunk *c;

	if (raw_ns < -TIME_MAX || raw_ns > TIME_MAX || raw_ns < r->latest_ns - r->late_ns ||
	    len > r->limits.bytes / 4) {
		ring_add_loss(r, raw_ns, 1);
		return false;
	}
	if (raw_ns > r->latest_ns)
		r->latest_ns = raw_ns;
	c = chunk_for(r, header + ring_round8(len));
	append(c, header, &(struct ring_record){ .raw_ns = raw_ns, .data = data, .len = len });
	c->latest_ns = r->latest_ns;
	move_or_drop_old(r);
	return true;
}

/* ---- windows longer than the ring ---- */

void ring_add_hold(struct ring *r, const struct ring_hold *hold)
{
	struct ring_hold_entry *h = xmalloc(sizeof(*h));

	*h = (struct ring_hold_entry){ .hold = *hold, .next = r->holds };
	r->holds = h;
}

uint64_t ring_remove_hold(struct ring *r, const void *owner)
{
	struct ring_hold_entry **at = &r->holds, *gone;
	uint64_t lost;
	size_t n = 0;

	while (*at && (*at)->hold.owner != owner)
		at = &(*at)->next;
	gone = *at;
	if (!gone)
		return 0;
	*at = gone->next;
	lost = gone->lost;
	free(gone);
	while (n < r->n_filed && !is_needed(r, &r->chunks[n]))
		n++;
	drop_oldest(r, n);
	return lost;
}
