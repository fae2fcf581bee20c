/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "agent/tracer/cpu/window_parts.h"
#include "agent/symbols/symbols.h"
#include "agent/proc/u32_map.h"
#include "base/file.h"
#include "base/mem.h"

/* Per round; what is left is asked in the next one. */
#define QUESTIONS_MAX 65536
#define PROCESSES_MAX 256
#define THREADS_MAX   4096

/* Copies of images, each once: `index` maps their numbers to 1 + place in `v`. */
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
	struct copies images = copies_of(w->images);

	while (i < n && stacks_name(w->stacks, i))
		i++;
	w->first_unnamed = i;
	for (; i < n && q->n < QUESTIONS_MAX; i++) {
		const struct stack_node *node = stacks_node(w->stacks, i);

		if (stacks_name(w->stacks, i))
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

struct cpu_questions *cpu_window_ask(struct cpu_window *w)
{
	struct cpu_questions *q = xcalloc(1, sizeof(*q));

	q->generation = w->generation;
	ask_names(w, q);
	q->n_processes = processes_ask(w->processes, &q->processes, PROCESSES_MAX);
	q->n_threads = threads_ask(w->processes, &q->threads, THREADS_MAX);
	if (q->n || q->n_processes || q->n_threads)
		return q;
	cpu_questions_free(q);
	return NULL;
}

void thread_question_answer(struct thread_question *q)
{
	struct buf text = BUF_INIT;
	char path[64];

	if (q->comm[0])
		return;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", q->pid, q->tid);
	if (!file_load(path, 256, &text, NULL))
		snprintf(q->comm, sizeof(q->comm), "%.*s", (int)strcspn(buf_str(&text), "\n"),
			 buf_str(&text));
	buf_release(&text);
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

/* Names of an earlier epoch mean nothing any more: all are asked for again. */
static void forget_names(struct cpu_window *w)
{
	for (uint32_t i = 1; i < stacks_count(w->stacks); i++)
		stacks_set_name(w->stacks, i, 0);
	w->first_unnamed = 1;
}

void cpu_window_learn(struct cpu_window *w, const struct cpu_questions *q)
{
	if (q->epoch != w->epoch)
		forget_names(w);
	w->epoch = q->epoch;
	for (size_t i = 0; q->generation == w->generation && i < q->n; i++)
		stacks_set_name(w->stacks, q->v[i].node, q->v[i].name);
	for (size_t i = 0; i < q->n_processes; i++)
		processes_answer(w->processes, &q->processes[i]);
	for (size_t i = 0; i < q->n_threads; i++)
		threads_answer(w->processes, &q->threads[i]);
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

static void cut_samples(const struct cpu_window *w, struct cpu_cut *cut)
{
	uint64_t oldest = cpu_window_oldest(w);

	cut->samples = xmalloc(((size_t)(w->n - oldest) + 1) * sizeof(*cut->samples));
	for (uint64_t i = oldest; i < w->n; i++) {
		const struct cpu_sample *s = &w->ring[i % w->cap];

		if (s->raw_ns >= cut->t0_raw_ns && s->raw_ns < cut->t1_raw_ns)
			cut->samples[cut->n_samples++] = *s;
	}
}

static void cut_nodes(const struct cpu_window *w, struct cpu_cut *cut)
{
	size_t n = stacks_count(w->stacks);
	uint32_t *place = xcalloc(n, sizeof(*place)); /* 1: wanted; then the place in the cut */
	struct copies images = copies_of(w->images);

	for (size_t i = 0; i < cut->n_samples; i++)
		place[cut->samples[i].node] = 1;
	for (size_t i = n - 1; i > 0; i--)
		if (place[i])
			place[stacks_node(w->stacks, (uint32_t)i)->parent] = 1;
	place[0] = 0;
	cut->n_nodes = 1;
	cut->nodes = xcalloc(n, sizeof(*cut->nodes));
	for (uint32_t i = 1; i < n; i++) {
		const struct stack_node *node = stacks_node(w->stacks, i);

		if (!place[i])
			continue;
		cut->nodes[cut->n_nodes] = (struct cpu_node){
			.offset = node->offset,
			.image = copy_image(&images, node->image),
			.parent = place[node->parent],
			.name = stacks_name(w->stacks, i),
		};
		place[i] = (uint32_t)cut->n_nodes++;
	}
	for (size_t i = 0; i < cut->n_samples; i++)
		cut->samples[i].node = place[cut->samples[i].node];
	cut->images = images.v;
	cut->n_images = images.n;
	free(images.index);
	free(place);
}

static void cut_threads(const struct cpu_window *w, struct cpu_cut *cut)
{
	struct u32_map seen = { 0 };

	for (size_t i = 0; i < cut->n_samples; i++) {
		uint32_t tid = cut->samples[i].tid;

		if (u32_map_get(&seen, tid))
			continue;
		u32_map_set(&seen, tid, cut);
		if (!(cut->n_threads & (cut->n_threads - 1)))
			cut->threads = xrealloc(cut->threads,
						(cut->n_threads ? 2 * cut->n_threads : 1) *
							sizeof(*cut->threads));
		cut->threads[cut->n_threads++] = processes_thread(w->processes, tid);
	}
	u32_map_release(&seen);
}

struct cpu_cut *cpu_window_cut(const struct cpu_window *w, int64_t t0_raw_ns, int64_t t1_raw_ns)
{
	struct cpu_cut *cut = xcalloc(1, sizeof(*cut));

	cut->t0_raw_ns = t0_raw_ns;
	cut->t1_raw_ns = t1_raw_ns;
	cut->epoch = w->epoch;
	cut_samples(w, cut);
	cut_nodes(w, cut);
	cut_threads(w, cut);
	return cut;
}

void cpu_cut_free(struct cpu_cut *cut)
{
	if (!cut)
		return;
	free(cut->samples);
	free(cut->nodes);
	free_images(cut->images, cut->n_images);
	free(cut->threads);
	free(cut);
}
