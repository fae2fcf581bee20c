/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/perf/stacks.h"
#include "agent/python/python_parts.h"
#include "base/mem.h"

/* Copies the whole tree of stacks and its functions. */
static void copy_nodes(const struct python *py, struct python_cut *cut)
{
	cut->n_nodes = stacks_count(py->stacks);
	cut->nodes = xcalloc(cut->n_nodes + 1, sizeof(*cut->nodes));
	cut->n_functions = py->n_functions;
	cut->functions = xcalloc(cut->n_functions + 1, sizeof(*cut->functions));
	for (uint32_t i = 1; i < cut->n_nodes; i++) {
		const struct stack_node *node = stacks_node(py->stacks, i);

		if (!node)
			continue;
		cut->nodes[i] = (struct python_node){ .function = node->image,
						      .line = (uint32_t)node->offset,
						      .parent = node->parent,
						      .is_entry = node->offset & NODE_IS_ENTRY };
		if (!cut->functions[node->image].name)
			cut->functions[node->image] = (struct python_function){
				.name = xstrdup(py->functions[node->image]->name),
				.file = xstrdup(py->functions[node->image]->file),
				.first_line = py->functions[node->image]->first_line,
			};
	}
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
	copy_nodes(py, cut);
	copy_processes(py, cut);
	return cut;
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
	uint64_t unread = ring_cut_each(cut->records, take_sample, cut);

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
