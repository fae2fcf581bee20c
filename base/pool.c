/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_BYTES 1024
#define MOST_BYTES  (256 << 10) /* free() gives blocks of this size back to the kernel */
#define ALIGN	    (_Alignof(max_align_t))

struct pool_block {
	struct pool_block *next;
	_Alignas(max_align_t) char bytes[];
};

static size_t next_size(const struct pool *p, size_t n)
{
	size_t size = p->next_size ? p->next_size : FIRST_BYTES;

	return n > size ? n : size;
}

static void add_block(struct pool *p, size_t n)
{
	size_t size = next_size(p, n);
	struct pool_block *b = xcalloc(1, sizeof(*b) + size);

	b->next = p->blocks;
	p->blocks = b;
	p->free = b->bytes;
	p->n_free = size;
	p->next_size = 2 * size < MOST_BYTES ? 2 * size : MOST_BYTES;
}

/* What is left of a block when the next one begins is lost: less than `n`. */
static void *take(struct pool *p, size_t n)
{
	void *out;

	if (n > p->n_free)
		add_block(p, n);
	out = p->free;
	p->free += n;
	p->n_free -= n;
	return out;
}

void *pool_alloc(struct pool *p, size_t n)
{
	size_t skip = (ALIGN - (uintptr_t)p->free % ALIGN) % ALIGN;

	if (!n)
		return NULL;
	if (skip + n <= p->n_free)
		take(p, skip);
	else
		p->n_free = 0;
	return take(p, n);
}

void *pool_copy(struct pool *p, const void *data, size_t n)
{
	void *out = pool_alloc(p, n);

	if (n)
		memcpy(out, data, n);
	return out;
}

const char *pool_text(struct pool *p, const char *text)
{
	size_t n = strlen(text) + 1;
	char *out = *text ? take(p, n) : NULL;

	if (!out)
		return "";
	memcpy(out, text, n);
	return out;
}

void pool_release(struct pool *p)
{
	struct pool_block *b, *next;

	for (b = p->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	*p = (struct pool){ 0 };
}
