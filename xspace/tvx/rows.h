/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each event the lowest row that is free: nested events become a stack. Private to xspace/tvx/. */
#ifndef XSPACE_TVX_ROWS_H
#define XSPACE_TVX_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct rows {
	struct row_end {
		int64_t end_ps;
		uint32_t row;
	} * open; /* rows in use: a heap, the earliest end on top */
	uint32_t *free_rows; /* rows below `n` that are not in use: a heap, the lowest on top */
	size_t n_open, n_free, cap;
	uint32_t n; /* rows so far */
};

/* Events come in order of their starts. `end_ps` is greater than `start_ps`. */
uint32_t rows_take(struct rows *r, int64_t start_ps, int64_t end_ps);
void rows_release(struct rows *r);

#endif
