/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/marks/marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "agent/marks/steps.h"
#include "base/mem.h"
#include "proto/limits.h"

/* All texts together: a process that floods us with long marks pushes out old ones, no more. */
#define TEXT_BYTES (8U << 20)

struct marks {
	struct mark *ring; /* LIMIT_MARKS; text is ours */
	size_t first, n;
	size_t text_bytes;
	uint64_t dropped;
	struct steps *steps;
};

struct marks *marks_new(void)
{
	struct marks *m = xcalloc(1, sizeof(*m));

	m->ring = xcalloc(LIMIT_MARKS, sizeof(*m->ring));
	m->steps = steps_new();
	return m;
}

static struct mark *at(const struct marks *m, size_t i)
{
	return &m->ring[(m->first + i) % LIMIT_MARKS];
}

static void drop_oldest(struct marks *m)
{
	struct mark *mark = at(m, 0);

	m->text_bytes -= strlen(mark->text) + 1;
	free((char *)mark->text);
	m->first = (m->first + 1) % LIMIT_MARKS;
	m->n--;
}

void marks_free(struct marks *m)
{
	if (!m)
		return;
	while (m->n)
		drop_oldest(m);
	steps_free(m->steps);
	free(m->ring);
	free(m);
}

void marks_add(struct marks *m, const struct mark *mark)
{
	char text[LIMIT_MARK_BYTES + 1];
	size_t len = clean_text(text, sizeof(text), mark->text, strlen(mark->text));
	struct mark *slot;

	while (m->n == LIMIT_MARKS || m->text_bytes + len + 1 > TEXT_BYTES) {
		drop_oldest(m);
		m->dropped++;
	}
	slot = at(m, m->n++);
	*slot = *mark;
	slot->text = xstrdup(text);
	m->text_bytes += len + 1;
	steps_add(m->steps, slot);
}

/* Marks arrive out of order: each process stamps its own. */
static int by_time(const void *a, const void *b)
{
	const struct mark *x = *(const struct mark *const *)a, *y = *(const struct mark *const *)b;

	return (x->raw_ns > y->raw_ns) - (x->raw_ns < y->raw_ns);
}

void marks_each(const struct marks *m, int64_t from_raw_ns, int64_t to_raw_ns,
		bool (*fn)(void *arg, const struct mark *mark), void *arg)
{
	const struct mark **found = xmalloc((m->n + 1) * sizeof(*found));
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct mark *mark = at(m, i);

		if (mark->raw_ns >= from_raw_ns && mark->raw_ns < to_raw_ns)
			found[n++] = mark;
	}
	sort_array(found, n, sizeof(*found), by_time);
	for (size_t i = 0; i < n && fn(arg, found[i]); i++)
		;
	free(found);
}

struct steps *marks_steps(const struct marks *m)
{
	return m->steps;
}

uint64_t marks_dropped(const struct marks *m)
{
	return m->dropped;
}
