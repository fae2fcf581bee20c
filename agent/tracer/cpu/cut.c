/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "agent/python/python.h"
#include "agent/tracer/cpu/window_parts.h"
#include "agent/symbols/symbols.h"
#include "base/file.h"
#include "base/mem.h"

/* The most questions of each kind in one round; the others wait for the next. */
#define QUESTIONS_MAX 65536
#define PROCESSES_MAX 256
#define THREADS_MAX   4096

/* Copies of images; `index` maps an image's number to 1 + its index in `v`. */
struct copies {
	const struct images *from;
	uint32_t *index;
	struct image *v;
	size_t n, cap;
};

static struct copies copies_of(const struct images *from)
{
	return (struct copies){ .from = from,
				.index = xcalloc(images_count(from), sizeof(uint32_t)) };
}

static uint32_t copy_image(struct copies *c, uint32_t image)
{
	if (c->index[image])
		return c->index[image] - 1;
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 16;
		c->v = xrealloc(c->v, c->cap * sizeof(*c->v));
	}
	c->v[c->n] = *images_get(c->from, image);
	c->v[c->n].path = c->v[c->n].path ? xstrdup(c->v[c->n].path) : NULL;
	c->index[image] = (uint32_t)++c->n;
	return (uint32_t)c->n - 1;
}

static void free_images(struct image *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].path);
	free(v);
}

/* ---- questions ---- */

static void ask_names(struct cpu_window *w, struct cpu_questions *q)
{
	uint32_t n = (uint32_t)stacks_count(w->stacks), i = w->first_unnamed;
	uint32_t added = stacks_take_added(w->stacks);
	struct copies images = copies_of(w->images);

	if (added < i)
		i = added;
	while (i < n && (stacks_name(w->stacks, i) || !stacks_node(w->stacks, i)))
		i++;
	w->first_unnamed = i;
	for (; i < n && q->n < QUESTIONS_MAX; i++) {
		const struct stack_node *node = stacks_node(w->stacks, i);

		if (!node || stacks_name(w->stacks, i))
			continue;
		if (!(q->n & (q->n - 1)))
			q->v = xrealloc(q->v, (q->n ? 2 * q->n : 1) * sizeof(*q->v));
		q->v[q->n++] = (struct cpu_question){ .node = i,
						      .image = copy_image(&images, node->image),
						      .offset = node->offset };
	}
	q->images = images.v;
	q->n_images = images.n;
	free(images.index);
}

struct cpu_questions *cpu_window_take_questions(struct cpu_window *w)
{
	struct cpu_questions *q = xcalloc(1, sizeof(*q));

	q->generation = w->generation;
	ask_names(w, q);
	q->n_processes = processes_take_questions(w->processes, &q->processes, PROCESSES_MAX);
	q->n_threads = threads_take_questions(w->threads, &q->threads, THREADS_MAX);
	if (q->n || q->n_processes || q->n_threads)
		return q;
	cpu_questions_free(q);
	return NULL;
}

static void answer_process(struct process_question *q, struct symbols *sy)
{
	struct image image = { .kind = IMAGE_KIND_PROCESS, .pid = q->pid, .serial = q->serial };
	const struct proc_maps *maps = symbols_maps(sy, &image);

	if (!maps)
		return;
	q->answered = true;
	q->maps.n = maps->n;
	q->maps.v = xcalloc(maps->n + 1, sizeof(*q->maps.v));
	for (size_t i = 0; i < maps->n; i++) {
		q->maps.v[i] = maps->v[i];
		q->maps.v[i].path = xstrdup(maps->v[i].path);
	}
}

void cpu_questions_answer(struct cpu_questions *q, struct symbols *sy)
{
	q->epoch = symbols_epoch(sy);
	for (size_t i = 0; i < q->n_threads; i++)
		thread_question_answer(&q->threads[i]);
	for (size_t i = 0; i < q->n_processes; i++)
		answer_process(&q->processes[i], sy);
	for (size_t i = 0; i < q->n; i++)
		q->v[i].name = symbols_resolve(sy, &q->images[q->v[i].image], q->v[i].offset);
}

/* A new epoch: no name is valid any more, so all are asked for again. */
static void forget_names(struct cpu_window *w)
{
	for (uint32_t i = 1; i < stacks_count(w->stacks); i++)
		stacks_set_name(w->stacks, i, 0);
	w->first_unnamed = 1;
}

void cpu_window_apply_answers(struct cpu_window *w, const struct cpu_questions *q)
{
	if (q->epoch != w->epoch)
		forget_names(w);
	w->epoch = q->epoch;
	for (size_t i = 0; q->generation == w->generation && i < q->n; i++)
		stacks_set_name(w->stacks, q->v[i].node, q->v[i].name);
	for (size_t i = 0; i < q->n_processes; i++)
		processes_apply_answer(w->processes, &q->processes[i]);
	for (size_t i = 0; i < q->n_threads; i++)
		threads_apply_answer(w->threads, &q->threads[i]);
}

void cpu_questions_free(struct cpu_questions *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->n_processes; i++)
		proc_maps_release(&q->processes[i].maps);
	free(q->processes);
	free(q->threads);
	free_images(q->images, q->n_images);
	free(q->v);
	free(q);
}

/* ---- cutting ---- */

/* Of a cut with no more bytes, the loop's thread itself reads the samples and takes the nodes that they have: that costs
 * less than to copy the whole tree. */
#define SMALL_CUT_BYTES (128U << 10)

static bool take_sample(void *arg, const struct ring_record *record)
{
	const struct sample_bytes *bytes = record->data;
	struct cpu_cut *cut = arg;

	if (cut->n_samples == cut->cap_samples) {
		cut->cap_samples = cut->cap_samples ? 2 * cut->cap_samples : 1024;
		cut->samples = xrealloc(cut->samples, cut->cap_samples * sizeof(*cut->samples));
	}
	cut->samples[cut->n_samples++] = (struct cpu_sample){ .raw_ns = record->raw_ns,
							      .tid = bytes->tid,
							      .node = bytes->node };
	return true;
}

/* The nodes that stay, callers before callees. `place` maps old numbers to new ones; 0 = not yet. */
struct kept_nodes {
	/* nodes are copied from the window's tree, or moved from `from` */
	const struct cpu_window *window;
	struct copies images;
	const struct cpu_node *from;
	uint32_t *place;
	struct cpu_node *v;
	size_t n, cap;
};

static struct cpu_node copy_node(const struct cpu_window *w, struct copies *images, uint32_t number)
{
	const struct stack_node *node = stacks_node(w->stacks, number);

	return (struct cpu_node){
		.offset = node->offset,
		.image = copy_image(images, node->image),
		.parent = node->parent,
		.name = stacks_name(w->stacks, number),
	};
}

static uint32_t parent_of(const struct kept_nodes *kept, uint32_t node)
{
	return kept->window ? stacks_node(kept->window->stacks, node)->parent
			    : kept->from[node].parent;
}

static void keep_node(struct kept_nodes *kept, uint32_t node)
{
	uint32_t path[CPU_FRAMES_MAX];
	size_t n = 0;

	for (uint32_t i = node; i && !kept->place[i] && n < CPU_FRAMES_MAX; i = parent_of(kept, i))
		path[n++] = i;
	while (n) {
		uint32_t i = path[--n];

		if (kept->n == kept->cap) {
			kept->cap *= 2;
			kept->v = xrealloc(kept->v, kept->cap * sizeof(*kept->v));
		}
		kept->v[kept->n] = kept->window ? copy_node(kept->window, &kept->images, i)
						: kept->from[i];
		kept->v[kept->n].parent = kept->place[kept->v[kept->n].parent];
		kept->place[i] = (uint32_t)kept->n++;
	}
}

/* The nodes of the samples become those of the cut. */
static void keep_nodes(struct cpu_cut *cut, struct kept_nodes *kept, size_t n_nodes)
{
	kept->place = xcalloc(n_nodes, sizeof(*kept->place));
	kept->n = 1;
	kept->cap = 256;
	kept->v = xcalloc(kept->cap, sizeof(*kept->v));
	for (size_t i = 0; i < cut->n_samples; i++) {
		keep_node(kept, cut->samples[i].node);
		cut->samples[i].node = kept->place[cut->samples[i].node];
	}
	free(kept->place);
	cut->nodes = kept->v;
	cut->n_nodes = kept->n;
}

static void copy_nodes_of_samples(const struct cpu_window *w, struct cpu_cut *cut)
{
	struct kept_nodes kept = { .window = w, .images = copies_of(w->images) };

	keep_nodes(cut, &kept, stacks_count(w->stacks));
	cut->images = kept.images.v;
	cut->n_images = kept.images.n;
	free(kept.images.index);
}

/* Copies the whole tree; a worker finds out later which nodes the samples have. */
static void copy_all_nodes(const struct cpu_window *w, struct cpu_cut *cut)
{
	struct copies images = copies_of(w->images);

	cut->n_nodes = stacks_count(w->stacks);
	cut->nodes = xcalloc(cut->n_nodes, sizeof(*cut->nodes));
	for (uint32_t i = 1; i < cut->n_nodes; i++)
		if (stacks_node(w->stacks, i))
			cut->nodes[i] = copy_node(w, &images, i);
	cut->images = images.v;
	cut->n_images = images.n;
	free(images.index);
}

struct cpu_cut *cpu_window_cut(const struct cpu_window *w, int64_t from_raw_ns,
			       struct ring_cut *records)
{
	struct cpu_cut *cut = xcalloc(1, sizeof(*cut));

	cut->records = records;
	cut->epoch = w->epoch;
	cut->is_loaded = ring_cut_bytes(records) <= SMALL_CUT_BYTES;
	if (cut->is_loaded) {
		ring_cut_each(records, take_sample, cut);
		copy_nodes_of_samples(w, cut);
	} else {
		copy_all_nodes(w, cut);
	}
	cut->threads = threads_list(w->threads, from_raw_ns, &cut->n_threads);
	return cut;
}

uint64_t cpu_cut_load(struct cpu_cut *cut)
{
	struct kept_nodes kept = { .from = cut->nodes };
	uint64_t unread;

	if (cut->is_loaded)
		return 0;
	unread = ring_cut_each(cut->records, take_sample, cut);
	keep_nodes(cut, &kept, cut->n_nodes);
	free((void *)kept.from);
	cut->is_loaded = true;
	return unread;
}

void cpu_cut_free(struct cpu_cut *cut)
{
	if (!cut)
		return;
	ring_cut_free(cut->records);
	python_cut_free(cut->python);
	free(cut->samples);
	free(cut->nodes);
	free_images(cut->images, cut->n_images);
	free(cut->threads);
	pod_view_release(cut->pods);
	free(cut);
}
