/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/tvx/rows.h"

#include <stdlib.h>

#include "base/mem.h"

static void push_open(struct rows *r, struct row_end item)
{
	size_t i = r->n_open++;

	for (; i && r->open[(i - 1) / 2].end_ps > item.end_ps; i = (i - 1) / 2)
		r->open[i] = r->open[(i - 1) / 2];
	r->open[i] = item;
}

static uint32_t pop_open(struct rows *r)
{
	struct row_end last = r->open[--r->n_open];
	uint32_t row = r->n_open ? r->open[0].row : last.row;
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < r->n_open; i = child) {
		if (child + 1 < r->n_open && r->open[child + 1].end_ps < r->open[child].end_ps)
			child++;
		if (r->open[child].end_ps >= last.end_ps)
			break;
		r->open[i] = r->open[child];
	}
	r->open[i] = last;
	return row;
}

static void push_free(struct rows *r, uint32_t row)
{
	size_t i = r->n_free++;

	for (; i && r->free_rows[(i - 1) / 2] > row; i = (i - 1) / 2)
		r->free_rows[i] = r->free_rows[(i - 1) / 2];
	r->free_rows[i] = row;
}

static uint32_t pop_free(struct rows *r)
{
	uint32_t row = r->free_rows[0], last = r->free_rows[--r->n_free];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < r->n_free; i = child) {
		if (child + 1 < r->n_free && r->free_rows[child + 1] < r->free_rows[child])
			child++;
		if (r->free_rows[child] >= last)
			break;
		r->free_rows[i] = r->free_rows[child];
	}
	r->free_rows[i] = last;
	return row;
}

uint32_t rows_take(struct rows *r, int64_t start_ps, int64_t end_ps)
{
	uint32_t row;

	while (r->n_open && r->open[0].end_ps <= start_ps)
		push_free(r, pop_open(r));
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 64;
		r->open = xrealloc(r->open, r->cap * sizeof(*r->open));
		r->free_rows = xrealloc(r->free_rows, r->cap * sizeof(*r->free_rows));
	}
	row = r->n_free ? pop_free(r) : r->n++;
	push_open(r, (struct row_end){ end_ps, row });
	return row;
}

void rows_release(struct rows *r)
{
	free(r->open);
	free(r->free_rows);
}
