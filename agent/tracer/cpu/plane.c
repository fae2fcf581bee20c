/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/cpu/plane.h"

#include <string.h>

#include "agent/symbols/symbols.h"
#include "agent/tracer/cpu/python_frames.h"
#include "base/clean_text.h"
#include "base/mem.h"

struct span {
	uint32_t name;
	uint32_t node; /* the leaf whose address becomes a stat; 0 = none */
	int64_t start_ns, end_ns;
};

/* One thread's line while it is built. Spans are in order of their start, callers first. */
struct line {
	const struct python_frames *python; /* NULL = none */
	int64_t last_ns; /* the sample before; 0 = none */
	struct span *spans;
	size_t n, cap;
	size_t open[CPU_DEPTH_MAX]; /* spans without an end yet, outermost first */
	size_t depth;
};

static void name_nodes(struct cpu_cut *cut, struct symbols *sy)
{
	bool stale = cut->epoch != symbols_epoch(sy);

	for (size_t i = 1; i < cut->n_nodes; i++) {
		struct cpu_node *n = &cut->nodes[i];

		if (stale || !n->name)
			n->name = symbols_resolve(sy, &cut->images[n->image], n->offset);
	}
	for (size_t i = 0; i < cut->n_samples; i++) {
		struct cpu_node *n = &cut->nodes[cut->samples[i].node];

		if (cut->samples[i].node && !n->leaf_name)
			n->leaf_name = symbols_group(sy, n->name);
	}
}

/* True for a text like "[kernel]", which names no function. "[kernel]" below "[kernel]" is shown as one frame;
 * "f" below "f" is a recursion and is shown as two. */
static bool is_placeholder(const struct symbols *sy, uint32_t name)
{
	const char *text = symbols_text(sy, name);

	return text[0] == '[' && text[strlen(text) - 1] == ']';
}

/* Lists the names of a stack, outermost first. Of a stack deeper than CPU_DEPTH_MAX the outermost frames are
 * left out. Leaves of a file without a known function share the file's name, since otherwise each address
 * would have its own. */
static size_t list_names(const struct cpu_cut *cut, const struct symbols *sy, uint32_t node,
			 uint32_t *names)
{
	size_t n = 0;

	for (uint32_t i = node; i && n < CPU_DEPTH_MAX; i = cut->nodes[i].parent)
		if (!n)
			names[n++] = cut->nodes[i].leaf_name;
		else if (names[n - 1] != cut->nodes[i].name || !is_placeholder(sy, names[n - 1]))
			names[n++] = cut->nodes[i].name;
	for (size_t i = 0; i < n / 2; i++) {
		uint32_t swap = names[i];

		names[i] = names[n - 1 - i];
		names[n - 1 - i] = swap;
	}
	return n;
}

/* The same with Python functions in place of the interpreter's, as many as fit into the plane. */
static size_t list_frames(const struct cpu_cut *cut, const struct symbols *sy, const struct line *l,
			  const struct cpu_sample *s, uint32_t *names)
{
	size_t n = list_names(cut, sy, s->node, names);
	uint32_t node = l->python ? python_frames_find(l->python, s->tid, s->raw_ns) : 0;
	bool is_interpreter[CPU_DEPTH_MAX];

	if (node) {
		for (size_t i = 0; i < n; i++)
			is_interpreter[i] = python_frames_is_interpreter(
				symbols_text(sy, names[i]));
		n = python_frames_merge(l->python, node, names, is_interpreter, n, CPU_DEPTH_MAX);
	}
	return cut->max_depth && n > cut->max_depth ? cut->max_depth : n;
}

static void close_spans(struct line *l, size_t depth, int64_t end_ns)
{
	while (l->depth > depth)
		l->spans[l->open[--l->depth]].end_ns = end_ns;
}

static void open_span(struct line *l, uint32_t name, uint32_t node, int64_t start_ns)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->spans = xrealloc(l->spans, l->cap * sizeof(*l->spans));
	}
	l->open[l->depth++] = l->n;
	l->spans[l->n++] = (struct span){ .name = name, .node = node, .start_ns = start_ns };
}

/* The end of spans that the next sample (at `next_ns`) does not continue: one period after their last sample, but not
 * after `next_ns`. */
static int64_t span_end(const struct cpu_cut *cut, const struct line *l, int64_t next_ns)
{
	int64_t end = l->last_ns + cut->period_ns;

	return end < next_ns ? end : next_ns;
}

/* `node` if `name` means the whole file of this leaf; 0 if it is the name of a function. */
static uint32_t unnamed_leaf(const struct cpu_cut *cut, uint32_t node, uint32_t name)
{
	const struct cpu_node *n = &cut->nodes[node];

	return n->leaf_name == name && n->leaf_name != n->name ? node : 0;
}

static void add_sample(const struct cpu_cut *cut, const struct symbols *sy, struct line *l,
		       const struct cpu_sample *s)
{
	uint32_t names[CPU_DEPTH_MAX];
	size_t n = list_frames(cut, sy, l, s, names), same = 0;

	/* Two and a half periods without a sample: the thread did something else in between. */
	if (l->last_ns && (s->raw_ns - l->last_ns) * 2 > cut->period_ns * 5)
		close_spans(l, 0, span_end(cut, l, s->raw_ns));
	while (same < l->depth && same < n && l->spans[l->open[same]].name == names[same])
		same++;
	close_spans(l, same, span_end(cut, l, s->raw_ns));
	for (size_t i = same; i < n; i++)
		open_span(l, names[i], i + 1 == n ? unnamed_leaf(cut, s->node, names[i]) : 0,
			  s->raw_ns);
	l->last_ns = s->raw_ns;
}

static void write_source(const struct python_function *f, struct xs_builder *b)
{
	xs_stat_str(b, "file", f->file);
	xs_stat_uint(b, "first_line", f->first_line);
}

static void write_line(const struct cpu_cut *cut, const struct symbols *sy, const struct line *l,
		       struct xs_builder *b)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct span *s = &l->spans[i];

		bool is_python = s->name & PYTHON_NAME;

		xs_event(b,
			 is_python ? python_frames_text(l->python, s->name)
				   : symbols_text(sy, s->name),
			 (s->start_ns - cut->t0_raw_ns) * 1000, (s->end_ns - s->start_ns) * 1000);
		if (is_python)
			write_source(python_frames_function(l->python, s->name), b);
		if (s->node)
			xs_stat_uint(b, "address", cut->nodes[s->node].offset);
	}
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct cpu_sample *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->raw_ns > y->raw_ns) - (x->raw_ns < y->raw_ns);
}

/* False, and there is no line, if the thread may not be shown. */
static bool begin_line(const struct cpu_cut *cut, uint32_t tid, struct xs_builder *b)
{
	char title[THREAD_TITLE_BYTES];

	if (!threads_title(cut->threads, cut->n_threads, tid, cut->pods, title))
		return false;
	xs_line(b, tid, title, cut->t0_raw_ns);
	return true;
}

void cpu_plane_build(struct cpu_cut *cut, struct symbols *sy, struct xs_builder *b)
{
	struct python_frames *python = cut->python ? python_frames_new(cut->python) : NULL;
	struct line l = { .python = python };

	name_nodes(cut, sy);
	sort_array(cut->samples, cut->n_samples, sizeof(*cut->samples), by_thread_and_time);
	threads_sort(cut->threads, cut->n_threads);
	xs_plane(b, 0, "/host:CPU");
	xs_stat_str(b, "tracer", "cpu");
	for (size_t i = 0; i < cut->n_samples; i++) {
		uint32_t tid = cut->samples[i].tid;

		add_sample(cut, sy, &l, &cut->samples[i]);
		if (i + 1 < cut->n_samples && cut->samples[i + 1].tid == tid)
			continue;
		close_spans(&l, 0, span_end(cut, &l, cut->t1_raw_ns));
		if (begin_line(cut, tid, b))
			write_line(cut, sy, &l, b);
		l.n = 0;
		l.last_ns = 0;
	}
	free(l.spans);
	python_frames_free(python);
}
