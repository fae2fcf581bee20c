/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/name_pool.h"

#include <string.h>

#include "base/mem.h"

void name_pool_release(struct name_pool *p)
{
	buf_release(&p->text);
	free(p->starts);
	free(p->slots);
	*p = (struct name_pool){ 0 };
}

const char *name_pool_get(const struct name_pool *p, uint32_t name)
{
	return (const char *)p->text.data + p->starts[name];
}

static uint32_t *slot_of(const struct name_pool *p, const char *name)
{
	uint64_t h = 0xcbf29ce484222325ULL;
	size_t i;

	for (const char *c = name; *c; c++)
		h = (h ^ (uint8_t)*c) * 0x100000001b3ULL;
	for (i = (size_t)(h ^ h >> 32) & (p->n_slots - 1); p->slots[i];
	     i = (i + 1) & (p->n_slots - 1))
		if (!strcmp(name_pool_get(p, p->slots[i]), name))
			break;
	return &p->slots[i];
}

static void grow(struct name_pool *p)
{
	p->cap = p->cap ? 2 * p->cap : 256;
	p->starts = xrealloc(p->starts, p->cap * sizeof(*p->starts));
	p->n_slots = 2 * p->cap;
	free(p->slots);
	p->slots = xcalloc(p->n_slots, sizeof(*p->slots));
	for (uint32_t i = 1; i <= p->n; i++)
		*slot_of(p, name_pool_get(p, i)) = i;
}

uint32_t name_pool_add(struct name_pool *p, const char *name)
{
	uint32_t *slot;

	if (p->n + 1 >= p->cap)
		grow(p);
	slot = slot_of(p, name);
	if (*slot)
		return *slot;
	*slot = (uint32_t)++p->n;
	p->starts[p->n] = p->text.len;
	buf_add(&p->text, name, strlen(name) + 1);
	return *slot;
}
