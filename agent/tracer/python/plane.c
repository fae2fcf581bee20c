/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/python/plane.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/pods/pod_view.h"
#include "agent/python/walk.h"
#include "base/mem.h"
#include "base/now.h"

/* frames of a stack, and one that stands for frames that are left out */
#define DEPTH_MAX (PYTHON_FRAMES_MAX + 1)

struct span {
	uint32_t node; /* line in its first sample */
	uint32_t samples;
	int64_t start_ns, end_ns;
};

/* One thread's line while it is built. Spans are in order of their start, callers first. */
struct line {
	const struct python_cut *cut;
	const struct python_window *window;
	const struct python_sample *last; /* the sample before; NULL = none */
	struct span *spans;
	size_t n, cap;
	size_t open[DEPTH_MAX]; /* spans without an end yet, outermost first */
	size_t depth;
};

/* Lists the nodes of a stack, outermost first. */
static size_t list_nodes(const struct line *l, uint32_t node, uint32_t *nodes)
{
	size_t n = 0;

	for (uint32_t i = node; i && n < DEPTH_MAX; i = l->cut->nodes[i].parent)
		nodes[n++] = i;
	for (size_t i = 0; i < n / 2; i++) {
		uint32_t swap = nodes[i];

		nodes[i] = nodes[n - 1 - i];
		nodes[n - 1 - i] = swap;
	}
	return n < l->window->max_depth ? n : l->window->max_depth;
}

static int64_t period_ns(const struct python_sample *s)
{
	return s->period_us * NS_PER_US;
}

/* The end of a span that the next sample (at `next_ns`) does not continue: one period after its last sample, but not
 * after `next_ns`. */
static int64_t span_end(const struct line *l, int64_t next_ns)
{
	int64_t end = l->last ? l->last->raw_ns + period_ns(l->last) : next_ns;

	return end < next_ns ? end : next_ns;
}

static void close_spans(struct line *l, size_t depth, int64_t end_ns)
{
	while (l->depth > depth)
		l->spans[l->open[--l->depth]].end_ns = end_ns;
}

static void open_span(struct line *l, uint32_t node, int64_t start_ns)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->spans = xrealloc(l->spans, l->cap * sizeof(*l->spans));
	}
	l->open[l->depth++] = l->n;
	l->spans[l->n++] = (struct span){ .node = node, .start_ns = start_ns };
}

/* Two and a half periods without a sample: the thread did something else in between. */
static bool is_gap(const struct python_sample *a, const struct python_sample *b)
{
	int64_t period = period_ns(a) > period_ns(b) ? period_ns(a) : period_ns(b);

	return (b->raw_ns - a->raw_ns) * 2 > period * 5;
}

static void add_sample(struct line *l, const struct python_sample *s)
{
	uint32_t nodes[DEPTH_MAX];
	size_t n = list_nodes(l, s->node, nodes), same = 0;

	if (l->last && is_gap(l->last, s))
		close_spans(l, 0, span_end(l, s->raw_ns));
	while (same < l->depth && same < n &&
	       l->cut->nodes[l->spans[l->open[same]].node].function ==
		       l->cut->nodes[nodes[same]].function)
		same++;
	close_spans(l, same, span_end(l, s->raw_ns));
	for (size_t i = same; i < n; i++)
		open_span(l, nodes[i], s->raw_ns);
	for (size_t i = 0; i < n; i++)
		l->spans[l->open[i]].samples++;
	l->last = s;
}

static void write_line(const struct line *l, struct xs_builder *b)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct span *s = &l->spans[i];
		const struct python_node *node = &l->cut->nodes[s->node];
		const struct python_function *f = &l->cut->functions[node->function];

		xs_event(b, f->name, (s->start_ns - l->window->t0_raw_ns) * 1000,
			 (s->end_ns - s->start_ns) * 1000);
		xs_stat_str(b, "file", f->file);
		xs_stat_uint(b, "line", node->line);
		xs_stat_uint(b, "samples", s->samples);
	}
}

/* "comm/tid": distinguishes threads of one name in viewers that show names alone. */
static void begin_line(const struct python_process *p, uint32_t tid, int64_t t0_raw_ns,
		       struct xs_builder *b)
{
	const char *comm = "";
	char name[48];

	for (size_t i = 0; i < p->n_threads; i++)
		if (p->threads[i].tid == tid)
			comm = p->threads[i].name;
	snprintf(name, sizeof(name), "%s/%u", comm[0] ? comm : "thread", tid);
	xs_line(b, tid, name, t0_raw_ns);
}

/* The samples of one thread: v[0 .. n). */
static void build_line(struct line *l, const struct python_process *p,
		       const struct python_sample *v, size_t n, struct xs_builder *b)
{
	l->last = NULL;
	l->n = 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].node != PYTHON_NODE_TORN)
			add_sample(l, &v[i]);
	close_spans(l, 0, span_end(l, l->window->t1_raw_ns));
	begin_line(p, v[0].tid, l->window->t0_raw_ns, b);
	write_line(l, b);
}

static void begin_plane(const struct python_process *p, const struct python_sample *v, size_t n,
			struct xs_builder *b, struct python_plane_counts *counts)
{
	char name[64], version[16];
	uint64_t torn = 0;

	for (size_t i = 0; i < n; i++)
		torn += v[i].node == PYTHON_NODE_TORN;
	snprintf(name, sizeof(name), "/host:CPU python [%u]", p->pid);
	snprintf(version, sizeof(version), "3.%d", p->minor);
	xs_plane(b, 0, name);
	xs_stat_int(b, "process_id", p->pid);
	xs_stat_str(b, "command", p->command);
	xs_stat_str(b, "python_version", version);
	xs_stat_uint(b, "samples", n);
	xs_stat_uint(b, "torn_samples", torn);
	counts->samples += n;
	counts->torn += torn;
}

static int by_process(const void *a, const void *b)
{
	const struct python_sample *x = a, *y = b;

	return (x->process > y->process) - (x->process < y->process);
}

static void count_unsampled(const struct python_cut *cut, const struct python_window *window,
			    struct python_plane_counts *counts)
{
	int64_t window_us = (window->t1_raw_ns - window->t0_raw_ns) / NS_PER_US;
	int64_t least_us = window_us > PYTHON_RARE_US ? window_us : PYTHON_RARE_US;

	for (size_t i = 0; i < cut->n_processes; i++) {
		const struct python_process *p = &cut->processes[i];
		const struct python_sample key = { .process = p->serial };
		bool ran = p->first_raw_ns && p->first_raw_ns < window->t0_raw_ns &&
			   (!p->ended_raw_ns || p->ended_raw_ns > window->t1_raw_ns);

		if (!ran || p->rare_us < least_us || pod_view_hides(window->pods, p->pid))
			continue;
		if (cut->n_samples &&
		    bsearch(&key, cut->samples, cut->n_samples, sizeof(key), by_process))
			continue;
		counts->unsampled++;
		counts->unsampled_pid = p->pid;
		counts->unsampled_rare_us = p->rare_us;
	}
}

void python_planes_build(const struct python_cut *cut, const struct python_window *window,
			 struct xs_builder *b, struct python_plane_counts *counts)
{
	struct line l = { .cut = cut, .window = window };
	const struct python_process *p = NULL;
	bool is_hidden = false;
	size_t n;

	*counts = (struct python_plane_counts){ 0 };
	count_unsampled(cut, window, counts);
	for (size_t i = 0; i < cut->n_samples; i += n) {
		const struct python_sample *v = &cut->samples[i];
		size_t left = cut->n_samples - i, of_process = 0;

		for (n = 1; n < left && v[n].process == v->process && v[n].tid == v->tid; n++)
			;
		if (!p || p->serial != v->process) {
			p = python_cut_process(cut, v->process);
			while (of_process < left && v[of_process].process == v->process)
				of_process++;
			is_hidden = p && pod_view_hides(window->pods, p->pid);
			if (p && !is_hidden)
				begin_plane(p, v, of_process, b, counts);
		}
		if (p && !is_hidden)
			build_line(&l, p, v, n, b);
	}
	free(l.spans);
}
