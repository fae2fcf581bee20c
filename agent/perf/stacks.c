/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/stacks.h"

#include <string.h>

#include "base/mem.h"

#define FIRST_NODES 1024
/* image of a free node; its `parent` is the next free node, 0 ends the list */
#define FREE_IMAGE UINT32_MAX

struct stacks {
	struct stack_node *nodes;
	uint32_t *names;
	size_t n, cap, max, used;
	uint32_t first_free;
	uint32_t lowest_added;
	uint32_t *slots; /* open addressing; 0 = free; twice `cap` of them */
	size_t n_slots;
};

static void reserve(struct stacks *s, size_t cap);

struct stacks *stacks_new(size_t max_nodes)
{
	struct stacks *s = xcalloc(1, sizeof(*s));

	s->max = max_nodes;
	s->n = s->used = 1;
	s->lowest_added = UINT32_MAX;
	reserve(s, max_nodes < FIRST_NODES ? max_nodes : FIRST_NODES);
	s->nodes[0] = (struct stack_node){ 0 };
	s->names[0] = 0;
	return s;
}

void stacks_free(struct stacks *s)
{
	if (!s)
		return;
	free(s->nodes);
	free(s->names);
	free(s->slots);
	free(s);
}

static uint64_t hash(const struct stack_node *n)
{
	uint64_t h = n->offset * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 29 ^ n->parent) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ h >> 31 ^ n->image) * 0x94d049bb133111ebULL;
	return h ^ h >> 32;
}

/* The slot that holds an equal node, or the free one where it belongs. */
static uint32_t *slot_of(const struct stacks *s, const struct stack_node *want)
{
	size_t i = (size_t)hash(want) & (s->n_slots - 1);

	for (; s->slots[i]; i = (i + 1) & (s->n_slots - 1)) {
		const struct stack_node *n = &s->nodes[s->slots[i]];

		if (n->offset == want->offset && n->image == want->image &&
		    n->parent == want->parent)
			break;
	}
	return &s->slots[i];
}

static void rehash(struct stacks *s)
{
	memset(s->slots, 0, s->n_slots * sizeof(*s->slots));
	for (size_t i = 1; i < s->n; i++)
		if (s->nodes[i].image != FREE_IMAGE)
			*slot_of(s, &s->nodes[i]) = (uint32_t)i;
}

static void reserve(struct stacks *s, size_t cap)
{
	size_t slots = 64;

	while (slots < 2 * cap)
		slots *= 2;
	s->cap = cap;
	s->nodes = xrealloc(s->nodes, cap * sizeof(*s->nodes));
	s->names = xrealloc(s->names, cap * sizeof(*s->names));
	s->slots = xrealloc(s->slots, slots * sizeof(*s->slots));
	s->n_slots = slots;
	rehash(s);
}

static uint32_t take_number(struct stacks *s)
{
	uint32_t node = s->first_free;

	if (node)
		s->first_free = s->nodes[node].parent;
	else
		node = (uint32_t)s->n++;
	s->used++;
	if (node < s->lowest_added)
		s->lowest_added = node;
	return node;
}

uint32_t stacks_push(struct stacks *s, uint32_t parent, const struct frame *frame)
{
	struct stack_node want = { .offset = frame->offset,
				   .image = frame->image,
				   .parent = parent };
	uint32_t *slot = slot_of(s, &want), node;

	if (*slot)
		return *slot;
	if (s->used == s->max)
		return STACK_FULL;
	if (!s->first_free && s->n == s->cap) {
		reserve(s, 2 * s->cap < s->max ? 2 * s->cap : s->max);
		slot = slot_of(s, &want);
	}
	node = take_number(s);
	s->nodes[node] = want;
	s->names[node] = 0;
	*slot = node;
	return node;
}

uint32_t stacks_take_added(struct stacks *s)
{
	uint32_t node = s->lowest_added;

	s->lowest_added = UINT32_MAX;
	return node;
}

size_t stacks_used(const struct stacks *s)
{
	return s->used;
}

size_t stacks_count(const struct stacks *s)
{
	return s->n;
}

const struct stack_node *stacks_node(const struct stacks *s, uint32_t node)
{
	return s->nodes[node].image == FREE_IMAGE ? NULL : &s->nodes[node];
}

uint32_t stacks_name(const struct stacks *s, uint32_t node)
{
	return s->names[node];
}

void stacks_set_name(struct stacks *s, uint32_t node, uint32_t name)
{
	s->names[node] = name;
}

void stacks_sweep(struct stacks *s, bool *keep)
{
	for (size_t i = 1; i < s->n; i++)
		for (uint32_t up = (uint32_t)i; keep[up] && up; up = s->nodes[up].parent)
			keep[s->nodes[up].parent] = true;
	s->first_free = 0;
	s->used = 1;
	for (size_t i = s->n - 1; i > 0; i--) {
		if (keep[i]) {
			s->used++;
			continue;
		}
		s->nodes[i] = (struct stack_node){ .image = FREE_IMAGE, .parent = s->first_free };
		s->names[i] = 0;
		s->first_free = (uint32_t)i;
	}
	rehash(s);
}
