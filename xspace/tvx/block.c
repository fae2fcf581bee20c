/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/tvx/block.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The numbers of a column. */
static void gather(const struct tvx_entry *en, size_t n, enum column c, bool is_raw, uint64_t *out)
{
	size_t i;

	switch (c) {
	case COL_START:
		for (i = 0; i < n; i++)
			out[i] = time_order(en[i].start_ps);
		break;
	case COL_LENGTH:
		for (i = 0; i < n; i++)
			out[i] = en[i].length_ps;
		break;
	case COL_NAME:
		for (i = 0; i < n; i++)
			out[i] = en[i].name;
		break;
	case COL_ROW:
		for (i = 0; i < n; i++)
			out[i] = en[i].row;
		break;
	case COL_REF:
		for (i = 0; i < n; i++)
			out[i] = is_raw ? en[i].source : en[i].event;
		break;
	case COL_COUNT:
		for (i = 0; i < n; i++)
			out[i] = en[i].count;
		break;
	case COL_BUSY:
		for (i = 0; i < n; i++)
			out[i] = is_raw && en[i].busy_ps == en[i].length_ps ? 0 : en[i].busy_ps;
		break;
	default:
		for (i = 0; i < n; i++)
			out[i] = is_raw ? 0 : en[i].longest_ps;
		break;
	}
}

static uint8_t width_of(uint64_t v)
{
	return v ? (uint8_t)((71 - __builtin_clzll(v)) / 8) : 0;
}

static void pack_column(struct buf *out, struct block_head *head, const uint64_t *numbers, size_t n,
			enum column c)
{
	uint64_t least = UINT64_MAX, most = 0;
	uint8_t width, *p;

	for (size_t i = 0; i < n; i++) {
		least = numbers[i] < least ? numbers[i] : least;
		most = numbers[i] > most ? numbers[i] : most;
	}
	width = width_of(most - least);
	head->base[c] = least;
	head->width[c] = width;
	if (!width)
		return;
	p = out->data + out->len;
	for (size_t i = 0; i < n; i++, p += width) {
		uint64_t v = numbers[i] - least;

		memcpy(p, &v,
		       sizeof(v)); /* the next number, or the tail, overwrites what is too much */
	}
	out->len += n * width;
}

void block_pack(struct buf *out, const struct tvx_entry *entries, size_t n_carried, size_t n,
		bool is_raw)
{
	struct block_head head;
	size_t at = out->len;
	uint64_t *numbers;

	n += n_carried;
	numbers = xmalloc(n * sizeof(*numbers));
	buf_reserve(out, sizeof(head) + n * (COLUMNS + 1) * sizeof(uint64_t) + BLOCK_TAIL);
	out->len += sizeof(head);
	for (int c = 0; c < COLUMNS; c++) {
		gather(entries, n, (enum column)c, is_raw, numbers);
		pack_column(out, &head, numbers, n, (enum column)c);
	}
	free(numbers);
	for (size_t i = 0; is_raw && i < n_carried; i++)
		buf_add(out, &entries[i].event, sizeof(entries[i].event));
	memset(out->data + out->len, 0, BLOCK_TAIL);
	out->len += BLOCK_TAIL;
	memcpy(out->data + at, &head, sizeof(head));
}

struct column_reader {
	const uint8_t *data;
	uint64_t base, mask;
	size_t width;
};

static inline uint64_t number(const struct column_reader *c, size_t i)
{
	uint64_t v;

	memcpy(&v, c->data + i * c->width, sizeof(v));
	return c->base + (v & c->mask);
}

/* Finds the columns; `*rest` becomes what is behind them, without the tail. */
static int read_head(const uint8_t *data, size_t len, size_t n, struct column_reader c[COLUMNS],
		     size_t *rest, struct err *e)
{
	struct block_head head;
	size_t at = sizeof(head);

	if (len < sizeof(head) + BLOCK_TAIL)
		return err_set(e, ERR_IO, "the index is damaged: a block of %zu bytes", len);
	memcpy(&head, data, sizeof(head));
	for (size_t i = 0; i < COLUMNS; i++) {
		size_t width = head.width[i];

		if (width > 8 || n * width > len - BLOCK_TAIL - at)
			return err_set(e, ERR_IO, "the index is damaged: a block's columns");
		c[i] = (struct column_reader){ .data = data + at,
					       .base = head.base[i],
					       .width = width };
		c[i].mask = width == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * width) - 1;
		at += n * width;
	}
	*rest = at;
	return 0;
}

/* False: it is out of range. */
static inline bool read_times(const struct column_reader c[COLUMNS], size_t i,
			      struct tvx_entry *restrict en)
{
	en->start_ps = order_time(number(&c[COL_START], i));
	en->length_ps = number(&c[COL_LENGTH], i);
	return en->start_ps >= -TIME_MAX && en->start_ps <= TIME_MAX &&
	       en->length_ps <= 2 * (uint64_t)TIME_MAX;
}

static inline bool is_wanted(const struct block_part *part, const struct tvx_entry *en,
			     const struct column_reader *rows, size_t i)
{
	return en->start_ps < part->to_ps && entry_end(en) > part->from_ps &&
	       (!part->rows || number(rows, i) < part->rows);
}

/* All but the times. */
static inline bool read_entry(const struct column_reader c[COLUMNS], size_t i,
			      const struct block_context *in, struct tvx_entry *restrict en)
{
	uint64_t ref = number(&c[COL_REF], i), name = number(&c[COL_NAME], i);
	uint64_t row = number(&c[COL_ROW], i);

	if (in->is_raw) {
		en->count = 1;
		en->busy_ps = in->kind == TVX_EVENTS ? en->length_ps : number(&c[COL_BUSY], i);
		en->longest_ps = en->length_ps;
		en->source = ref;
		en->event = 0;
	} else {
		en->count = number(&c[COL_COUNT], i);
		en->busy_ps = number(&c[COL_BUSY], i);
		en->longest_ps = number(&c[COL_LONGEST], i);
		en->source = 0;
		en->event = ref;
	}
	en->name = (uint32_t)name;
	en->row = (uint32_t)row;
	return name < in->n_names && row < TVX_ROWS_MAX && en->count > 0;
}

int block_unpack(const uint8_t *data, const struct block *b, const struct block_context *in,
		 const struct block_part *part, struct tvx_entry *out, size_t *n_out, struct err *e)
{
	struct column_reader c[COLUMNS];
	size_t n = (size_t)b->n_carried + b->n, rest = 0;
	struct tvx_entry *en = out;
	int rc = read_head(data, b->len, n, c, &rest, e);

	if (!rc && in->is_raw && b->n_carried * sizeof(uint64_t) > b->len - BLOCK_TAIL - rest)
		rc = err_set(e, ERR_IO, "the index is damaged: a block's carried events");
	for (size_t i = part && part->no_carried ? b->n_carried : 0; !rc && i < n; i++) {
		bool is_sound = read_times(c, i, en);

		if (is_sound && part && !is_wanted(part, en, &c[COL_ROW], i)) {
			if (i >= b->n_carried && en->start_ps >= part->to_ps)
				break; /* its own entries are in the order of their starts */
			continue;
		}
		if (!is_sound || !read_entry(c, i, in, en))
			rc = err_set(e, ERR_IO, "the index is damaged: an entry of a block");
		else if (in->is_raw && i < b->n_carried)
			memcpy(&en->event, data + rest + i * sizeof(uint64_t), sizeof(uint64_t));
		else if (in->is_raw)
			en->event = b->first + (i - b->n_carried);
		en++;
	}
	*n_out = (size_t)(en - out);
	return rc;
}
