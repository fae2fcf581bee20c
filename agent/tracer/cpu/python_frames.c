/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/cpu/python_frames.h"

#include <string.h>

#include "base/mem.h"
#include "base/now.h"

/* The samples of one thread, in order of time. */
struct thread {
	uint32_t tid;
	const struct python_sample *v;
	size_t n;
};

struct python_frames {
	const struct python_cut *cut;
	struct thread *threads; /* by tid */
	size_t n_threads;
	char **texts; /* of functions */
};

static int by_tid(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static void list_threads(struct python_frames *pf)
{
	const struct python_cut *cut = pf->cut;

	for (size_t i = 0; i < cut->n_samples; i++) {
		const struct python_sample *s = &cut->samples[i];

		if (i && s->tid == s[-1].tid && s->process == s[-1].process) {
			pf->threads[pf->n_threads - 1].n++;
			continue;
		}
		if (!(pf->n_threads & (pf->n_threads - 1)))
			pf->threads = xrealloc(pf->threads,
					       (pf->n_threads ? 2 * pf->n_threads : 1) *
						       sizeof(*pf->threads));
		pf->threads[pf->n_threads++] = (struct thread){ s->tid, s, 1 };
	}
	sort_array(pf->threads, pf->n_threads, sizeof(*pf->threads), by_tid);
}

static char *text_of(const struct python_function *f)
{
	const char *slash = strrchr(f->file, '/');

	return f->file[0] ? xasprintf("%s (%s)", f->name, slash ? slash + 1 : f->file)
			  : xstrdup(f->name);
}

struct python_frames *python_frames_new(const struct python_cut *cut)
{
	struct python_frames *pf = xcalloc(1, sizeof(*pf));

	pf->cut = cut;
	pf->texts = xcalloc(cut->n_functions + 1, sizeof(char *));
	for (size_t i = 0; i < cut->n_functions; i++)
		pf->texts[i] = text_of(&cut->functions[i]);
	list_threads(pf);
	return pf;
}

void python_frames_free(struct python_frames *pf)
{
	if (!pf)
		return;
	for (size_t i = 0; i < pf->cut->n_functions; i++)
		free(pf->texts[i]);
	free(pf->texts);
	free(pf->threads);
	free(pf);
}

const char *python_frames_text(const struct python_frames *pf, uint32_t name)
{
	return pf->texts[name & ~PYTHON_NAME];
}

const struct python_function *python_frames_function(const struct python_frames *pf, uint32_t name)
{
	return &pf->cut->functions[name & ~PYTHON_NAME];
}

bool python_frames_is_interpreter(const char *name)
{
	return !strncmp(name, "_PyEval_EvalFrameDefault", 24);
}

static int64_t distance_ns(const struct python_sample *s, int64_t raw_ns)
{
	return s->raw_ns > raw_ns ? s->raw_ns - raw_ns : raw_ns - s->raw_ns;
}

uint32_t python_frames_find(const struct python_frames *pf, uint32_t tid, int64_t raw_ns)
{
	const struct thread key = { .tid = tid }, *t;
	const struct python_sample *nearest;
	size_t low = 0, high;

	t = pf->n_threads ? bsearch(&key, pf->threads, pf->n_threads, sizeof(key), by_tid) : NULL;
	if (!t)
		return 0;
	for (high = t->n; low < high;) {
		size_t mid = (low + high) / 2;

		if (t->v[mid].raw_ns < raw_ns)
			low = mid + 1;
		else
			high = mid;
	}
	nearest = &t->v[low < t->n ? low : t->n - 1];
	if (low && low < t->n &&
	    distance_ns(&t->v[low - 1], raw_ns) <= distance_ns(nearest, raw_ns))
		nearest = &t->v[low - 1];
	if (nearest->node == PYTHON_NODE_TORN ||
	    distance_ns(nearest, raw_ns) > nearest->period_us * NS_PER_US)
		return 0;
	return nearest->node;
}

/* A merged stack while it is made, innermost first. */
struct merge {
	const struct python_cut *cut;
	uint32_t node; /* the next Python frame to add; 0 = none is left */
	uint32_t *out;
	size_t n, max;
};

static void put(struct merge *m, uint32_t name)
{
	if (m->n < m->max)
		m->out[m->n++] = name;
}

/* Adds Python functions up to one that C called; with `all`, all that are left. False if there is none. */
static bool put_chain(struct merge *m, bool all)
{
	bool is_entry = false;

	if (!m->node)
		return false;
	while (m->node && (all || !is_entry)) {
		put(m, m->cut->nodes[m->node].function | PYTHON_NAME);
		is_entry = m->cut->nodes[m->node].is_entry;
		m->node = m->cut->nodes[m->node].parent;
	}
	return true;
}

size_t python_frames_merge(const struct python_frames *pf, uint32_t node, uint32_t *names,
			   const bool *is_interpreter, size_t n, size_t max)
{
	uint32_t *out = xmalloc((max + 1) * sizeof(*out));
	struct merge m = { .cut = pf->cut, .node = node, .out = out, .max = max };
	size_t calls = 0;

	for (size_t i = 0; i < n; i++)
		calls += is_interpreter[i];
	if (!calls)
		calls = 1; /* the kernel's walk ended before the interpreter's call */
	for (size_t i = n; i > 0; i--) {
		if (!is_interpreter[i - 1])
			put(&m, names[i - 1]);
		else if (!put_chain(&m, --calls == 0))
			put(&m, names[i - 1]);
	}
	if (calls)
		put_chain(&m, true);
	for (size_t i = 0; i < m.n; i++)
		names[i] = out[m.n - 1 - i];
	free(out);
	return m.n;
}
