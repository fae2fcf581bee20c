/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for many small things that are freed all together: they lie one after the other in large blocks.
 * They never move, so readers on other threads may keep pointers to them until the pool is released. A zeroed
 * pool is empty. One thread at a time adds to it.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stddef.h>

struct pool_block;

struct pool {
	struct pool_block *blocks; /* the last one first */
	char *free;
	size_t n_free, next_size;
};

void *pool_alloc(struct pool *p, size_t n); /* zeroed, aligned for any type; for 0 bytes NULL */
void *pool_copy(struct pool *p, const void *data, size_t n); /* as pool_alloc() */
const char *pool_text(struct pool *p, const char *text);
void pool_release(struct pool *p); /* empty then */

#endif
