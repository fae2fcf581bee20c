/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/perf/stacks.h"
#include "agent/python/python_parts.h"
#include "agent/python/walk.h"
#include "base/mem.h"

/* Of a cut with no more bytes, the loop's thread itself reads the samples and copies the stacks that they have: that costs
 * less than to copy all stacks. */
#define SMALL_CUT_BYTES (128U << 10)

/* The nodes and functions that are copied. `place` and `function_place` map numbers to those of the cut; 0 = not yet. */
struct copying {
	const struct python *py;
	struct python_cut *cut;
	uint32_t *place, *function_place;
	size_t cap, functions_cap;
};

static uint32_t copy_function(struct copying *c, uint32_t number)
{
	const struct python_function *from = c->py->functions[number];
	struct python_cut *cut = c->cut;

	if (c->function_place[number])
		return c->function_place[number] - 1;
	if (cut->n_functions == c->functions_cap) {
		c->functions_cap = c->functions_cap ? 2 * c->functions_cap : 64;
		cut->functions = xrealloc(cut->functions,
					  c->functions_cap * sizeof(*cut->functions));
	}
	cut->functions[cut->n_functions++] = (struct python_function){
		.name = xstrdup(from->name),
		.file = xstrdup(from->file),
		.first_line = from->first_line,
	};
	c->function_place[number] = (uint32_t)cut->n_functions;
	return (uint32_t)cut->n_functions - 1;
}

static void copy_node(struct copying *c, uint32_t number)
{
	const struct stack_node *node = stacks_node(c->py->stacks, number);
	struct python_cut *cut = c->cut;

	if (cut->n_nodes == c->cap) {
		c->cap *= 2;
		cut->nodes = xrealloc(cut->nodes, c->cap * sizeof(*cut->nodes));
	}
	cut->nodes[cut->n_nodes] = (struct python_node){
		.function = copy_function(c, node->image),
		.line = (uint32_t)node->offset,
		.parent = c->place[node->parent],
		.is_entry = node->offset & NODE_IS_ENTRY,
	};
	c->place[number] = (uint32_t)cut->n_nodes++;
}

/* Copies a node and its callers, callers first. Returns its number in the cut. */
static uint32_t copy_stack(struct copying *c, uint32_t number)
{
	uint32_t path[PYTHON_FRAMES_MAX + 1];
	size_t n = 0;

	for (uint32_t i = number; i && !c->place[i] && n < ARRAY_SIZE(path);
	     i = stacks_node(c->py->stacks, i)->parent)
		path[n++] = i;
	while (n)
		copy_node(c, path[--n]);
	return c->place[number];
}

static bool take_sample(void *arg, const struct ring_record *record)
{
	const struct sample_bytes *bytes = record->data;
	struct python_cut *cut = arg;

	if (cut->n_samples == cut->cap_samples) {
		cut->cap_samples = cut->cap_samples ? 2 * cut->cap_samples : 1024;
		cut->samples = xrealloc(cut->samples, cut->cap_samples * sizeof(*cut->samples));
	}
	cut->samples[cut->n_samples++] = (struct python_sample){ .raw_ns = record->raw_ns,
								 .process = bytes->process,
								 .tid = bytes->tid,
								 .node = bytes->node,
								 .period_us = bytes->period_us };
	return true;
}

/* The samples' stacks if they are few, else all. */
static void copy_stacks(const struct python *py, struct python_cut *cut)
{
	size_t n = stacks_count(py->stacks);
	struct copying c = { .py = py,
			     .cut = cut,
			     .place = xcalloc(n, sizeof(*c.place)),
			     .function_place = xcalloc(py->n_functions + 1,
						       sizeof(*c.function_place)),
			     .cap = 64 };

	cut->n_nodes = 1;
	cut->nodes = xcalloc(c.cap, sizeof(*cut->nodes));
	cut->is_loaded = ring_cut_bytes(cut->records) <= SMALL_CUT_BYTES;
	if (cut->is_loaded) {
		ring_cut_each(cut->records, take_sample, cut);
		for (size_t i = 0; i < cut->n_samples; i++)
			if (cut->samples[i].node != PYTHON_NODE_TORN)
				cut->samples[i].node = copy_stack(&c, cut->samples[i].node);
		free(c.place);
	} else {
		for (uint32_t i = 1; i < n; i++)
			if (stacks_node(py->stacks, i))
				copy_stack(&c, i);
		cut->place = c.place;
	}
	free(c.function_place);
}

static void copy_processes(const struct python *py, struct python_cut *cut)
{
	cut->n_processes = py->n_processes;
	cut->processes = xcalloc(py->n_processes + 1, sizeof(*cut->processes));
	for (size_t i = 0; i < py->n_processes; i++) {
		struct python_process *p = &cut->processes[i];

		*p = py->processes[i];
		p->threads = xcalloc(p->n_threads + 1, sizeof(*p->threads));
		if (p->n_threads)
			memcpy(p->threads, py->processes[i].threads,
			       p->n_threads * sizeof(*p->threads));
	}
}

struct python_cut *python_cut_new(const struct python *py, struct ring_cut *records)
{
	struct python_cut *cut = xcalloc(1, sizeof(*cut));

	cut->records = records;
	copy_stacks(py, cut);
	copy_processes(py, cut);
	return cut;
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct python_sample *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->raw_ns > y->raw_ns) - (x->raw_ns < y->raw_ns);
}

uint64_t python_cut_load(struct python_cut *cut)
{
	uint64_t unread = 0;

	if (!cut->is_loaded) {
		unread = ring_cut_each(cut->records, take_sample, cut);
		for (size_t i = 0; i < cut->n_samples; i++)
			if (cut->samples[i].node != PYTHON_NODE_TORN)
				cut->samples[i].node = cut->place[cut->samples[i].node];
		cut->is_loaded = true;
	}
	sort_array(cut->samples, cut->n_samples, sizeof(*cut->samples), by_thread_and_time);
	return unread;
}

void python_cut_free(struct python_cut *cut)
{
	if (!cut)
		return;
	ring_cut_free(cut->records);
	for (size_t i = 0; i < cut->n_functions; i++) {
		free(cut->functions[i].name);
		free(cut->functions[i].file);
	}
	for (size_t i = 0; i < cut->n_processes; i++)
		free(cut->processes[i].threads);
	free(cut->functions);
	free(cut->processes);
	free(cut->nodes);
	free(cut->place);
	free(cut->samples);
	free(cut);
}

static int by_serial(const void *a, const void *b)
{
	const struct python_process *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

struct python_process *python_process_find(struct python_process *v, size_t n, uint32_t serial)
{
	const struct python_process key = { .serial = serial };

	return n ? bsearch(&key, v, n, sizeof(*v), by_serial) : NULL;
}

const struct python_process *python_cut_process(const struct python_cut *cut, uint32_t serial)
{
	return python_process_find(cut->processes, cut->n_processes, serial);
}
