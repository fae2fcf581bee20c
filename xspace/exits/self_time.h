/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of an event that is its own: without that of the events in it. One stack for each lane of a line; zeroed is
 * empty. Private to xspace/exits/.
 */
#ifndef XSPACE_EXITS_SELF_TIME_H
#define XSPACE_EXITS_SELF_TIME_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "xspace/exits/exits.h"

struct self_open {
	uint32_t id; /* the caller's */
	int64_t ns; /* within the filter's times */
	int64_t inner_ns; /* of the events in it */
};

struct self_stack {
	struct self_open *open; /* the innermost last */
	size_t n, cap;
};

/* How much of [start_ns, end_ns) the filter lets through. */
static inline int64_t self_clip(const struct exit_filter *f, int64_t start_ns, int64_t end_ns)
{
	int64_t from = start_ns > f->from_ns ? start_ns : f->from_ns;
	int64_t to = end_ns < f->to_ns ? end_ns : f->to_ns;

	return to > from ? to - from : 0;
}

static inline void self_push(struct self_stack *s, uint32_t id, int64_t ns)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->open = xrealloc(s->open, s->cap * sizeof(*s->open));
	}
	s->open[s->n++] = (struct self_open){ .id = id, .ns = ns };
}

/* Ends the innermost event; the stack is not empty. Returns its own time. */
static inline int64_t self_pop(struct self_stack *s, uint32_t *id)
{
	const struct self_open *ended = &s->open[--s->n];

	if (s->n)
		s->open[s->n - 1].inner_ns += ended->ns;
	*id = ended->id;
	return ended->ns - ended->inner_ns;
}

/* Both are of EXIT_LANES_MAX stacks. */
static inline void self_clear(struct self_stack *stacks)
{
	for (size_t i = 0; i < EXIT_LANES_MAX; i++)
		stacks[i].n = 0;
}

static inline void self_release(struct self_stack *stacks)
{
	for (size_t i = 0; i < EXIT_LANES_MAX; i++)
		free(stacks[i].open);
	free(stacks);
}

#endif
