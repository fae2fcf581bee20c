/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observations of one host as bytes, from where they were made to where hosts are compared. Numbers are
 * varints, signed ones in zigzag:
 *
 *   version 1, left out, collectives, ambiguous collectives
 *   1 and the steps' first, last, first_at_ns, end_at_ns; or 0
 *   observations: their number, then each, in the order of their keys:
 *       bytes shared with the key before, further bytes, those; flags; devices of a collective;
 *       start since the start before; end since the start
 */
#include "xspace/causality.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/reader.h"
#include "xspace/causality_impl.h"

#define VERSION	  1
#define COUNT_MAX (UINT64_C(1) << 48)

enum { HAS_START = 1, HAS_END = 2, AMBIGUOUS = 4, HAS_OUT = 8, FLAGS = 15 };

/* One observation with its key. */
struct row {
	const struct causal_key *key;
	const struct causal_seen *seen;
};

/* ---- writing ---- */

static void put_signed(struct buf *out, int64_t n)
{
	buf_add_varint(out, (uint64_t)n << 1 ^ (uint64_t)(n >> 63));
}

static int by_text(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return strcmp(x->key->text, y->key->text);
}

static size_t count_shared(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

static void put_row(struct buf *out, const struct row *row, const char *before, int64_t *start_ns)
{
	const struct causal_seen *s = row->seen;
	size_t shared = count_shared(row->key->text, before);
	size_t rest = strlen(row->key->text) - shared;

	buf_add_varint(out, shared);
	buf_add_varint(out, rest);
	buf_add(out, row->key->text + shared, rest);
	buf_add_varint(out, (s->has_start ? HAS_START : 0) | (s->has_end ? HAS_END : 0) |
				    (row->key->ambiguous ? AMBIGUOUS : 0) |
				    (row->key->has_out ? HAS_OUT : 0));
	buf_add_varint(out, s->n);
	if (s->has_start) {
		put_signed(out, s->start_ns - *start_ns);
		*start_ns = s->start_ns;
	}
	if (s->has_end)
		put_signed(out, s->end_ns - *start_ns);
}

/* As many as fit; hosts with the same keys leave out the same ones. */
static size_t put_rows(struct buf *out, const struct row *rows, size_t n, size_t max_bytes)
{
	const char *before = "";
	int64_t start_ns = 0;
	size_t done = 0;

	for (; done < n; done++) {
		size_t len = out->len;

		put_row(out, &rows[done], before, &start_ns);
		if (out->len > max_bytes) {
			buf_cut(out, len);
			break;
		}
		before = rows[done].key->text;
	}
	return done;
}

static void put_steps(struct buf *out, const struct xs_steps *s)
{
	buf_add_varint(out, s->known);
	if (!s->known)
		return;
	put_signed(out, s->first);
	put_signed(out, s->last);
	put_signed(out, s->first_at_ns);
	put_signed(out, s->end_at_ns);
}

void xs_causality_pack(const struct xs_causality *c, size_t max_bytes, struct buf *out)
{
	struct row *rows = xcalloc(c->n_seen + 1, sizeof(*rows));
	struct buf body = BUF_INIT;
	size_t n;

	for (size_t i = 0; i < c->n_seen; i++)
		rows[i] = (struct row){ c->keys[c->seen[i].key], &c->seen[i] };
	sort_array(rows, c->n_seen, sizeof(*rows), by_text);
	n = put_rows(&body, rows, c->n_seen, max_bytes);
	buf_add_varint(out, VERSION);
	buf_add_varint(out, c->left_out + (c->n_seen - n));
	buf_add_varint(out, c->collectives);
	buf_add_varint(out, c->ambiguous_collectives);
	put_steps(out, &c->steps[0]);
	buf_add_varint(out, n);
	buf_add(out, body.data, body.len);
	buf_release(&body);
	free(rows);
}

/* ---- reading ---- */

static bool take_count(struct reader *r, uint64_t max, uint64_t *out)
{
	return reader_varint(r, out) && *out <= max;
}

static bool take_signed(struct reader *r, int64_t *out)
{
	uint64_t n;

	if (!reader_varint(r, &n))
		return false;
	*out = (int64_t)(n >> 1 ^ -(n & 1));
	return true;
}

/* A time since `base`, which is itself in range: so the sum cannot overflow. */
static bool take_time(struct reader *r, int64_t base_ns, int64_t *out)
{
	int64_t since;

	if (!take_signed(r, &since) || since > 2 * CAUSALITY_TIME_MAX_NS ||
	    since < -2 * CAUSALITY_TIME_MAX_NS)
		return false;
	*out = base_ns + since;
	return *out <= CAUSALITY_TIME_MAX_NS && *out >= -CAUSALITY_TIME_MAX_NS;
}

static bool take_steps(struct reader *r, struct xs_steps *s)
{
	uint64_t known;

	*s = (struct xs_steps){ 0 };
	if (!take_count(r, 1, &known))
		return false;
	if (!known)
		return true;
	s->known = true;
	return take_signed(r, &s->first) && take_signed(r, &s->last) &&
	       take_time(r, 0, &s->first_at_ns) && take_time(r, 0, &s->end_at_ns) &&
	       s->first <= s->last;
}

static bool is_text(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] < ' ' || bytes[i] == 0x7f)
			return false;
	}
	return true;
}

/* `key` is the one before, and becomes the next, which is greater. */
static bool take_key(struct reader *r, char key[XS_CAUSALITY_KEY_BYTES])
{
	char next[XS_CAUSALITY_KEY_BYTES];
	const uint8_t *bytes;
	uint64_t shared, rest;

	if (!take_count(r, strlen(key), &shared) ||
	    !take_count(r, XS_CAUSALITY_KEY_BYTES - 1 - shared, &rest) ||
	    !reader_take(r, (size_t)rest, &bytes) || !is_text(bytes, (size_t)rest))
		return false;
	memcpy(next, key, (size_t)shared);
	memcpy(next + shared, bytes, (size_t)rest);
	next[shared + rest] = '\0';
	if (strcmp(next, key) <= 0)
		return false;
	memcpy(key, next, (size_t)(shared + rest + 1));
	return true;
}

static bool take_times(struct reader *r, uint64_t flags, int64_t *start_ns, int64_t *end_ns)
{
	if (flags & HAS_START && !take_time(r, *start_ns, start_ns))
		return false;
	return !(flags & HAS_END) || take_time(r, *start_ns, end_ns);
}

/* Each host may have one observation of a key. A flow that two hosts send is ambiguous. */
static void add_row(struct xs_causality *c, uint32_t host, const char *text, uint64_t flags,
		    const struct causal_seen *row)
{
	struct causal_key *key = causality_key(c, text);
	struct causal_seen *s = key ? causality_seen(c, key, host) : NULL;

	if (!s) {
		c->left_out++;
		return;
	}
	key->ambiguous |= flags & AMBIGUOUS || (flags & HAS_OUT && key->has_out);
	key->has_out |= (flags & HAS_OUT) != 0;
	s->has_start = flags & HAS_START;
	s->has_end = flags & HAS_END;
	s->n = row->n;
	s->start_ns = row->start_ns;
	s->end_ns = row->end_ns;
}

static bool take_rows(struct reader *r, struct xs_causality *c, uint32_t host)
{
	char key[XS_CAUSALITY_KEY_BYTES] = "";
	struct causal_seen row = { 0 };
	uint64_t n, flags, devices;

	if (!take_count(r, XS_CAUSALITY_SEEN, &n))
		return false;
	for (uint64_t i = 0; i < n; i++) {
		if (!take_key(r, key) || !take_count(r, FLAGS, &flags) ||
		    !take_count(r, UINT32_MAX, &devices) ||
		    !take_times(r, flags, &row.start_ns, &row.end_ns))
			return false;
		row.n = (uint32_t)devices;
		add_row(c, host, key, flags, &row);
	}
	return !reader_left(r);
}

static bool take_counts(struct reader *r, uint64_t *left_out, uint64_t *collectives,
			uint64_t *ambiguous)
{
	uint64_t version;

	return take_count(r, VERSION, &version) && version == VERSION &&
	       take_count(r, COUNT_MAX, left_out) && take_count(r, COUNT_MAX, collectives) &&
	       take_count(r, COUNT_MAX, ambiguous);
}

int xs_causality_add_packed(struct xs_causality *c, const void *data, size_t len, int64_t bound_ns,
			    struct err *e)
{
	struct reader r = reader_of(data, len);
	uint64_t left_out, collectives, ambiguous;
	uint32_t host = causality_add_host(c, bound_ns);
	size_t before = c->n_seen;
	struct xs_steps steps;

	if (!take_counts(&r, &left_out, &collectives, &ambiguous) || !take_steps(&r, &steps) ||
	    !take_rows(&r, c, host)) {
		c->n_seen = before;
		return err_set(e, ERR_INVALID, "the host's observations are malformed");
	}
	c->left_out += left_out;
	c->collectives += collectives;
	c->ambiguous_collectives += ambiguous;
	c->steps[host] = steps;
	return 0;
}
