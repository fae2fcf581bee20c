/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/perf/stacks.h"
#include "agent/python/python_parts.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

#define THREADS_KNOWN 16384 /* threads of one process, ended ones included */

/* ---- processes ---- */

void python_take_process(struct python *py, const struct python_target *t)
{
	struct python_process *p = python_process_find(py->processes, py->n_processes, t->serial);

	if (!p) {
		py->processes = xrealloc(py->processes,
					 (py->n_processes + 1) * sizeof(*py->processes));
		py->threads = xrealloc(py->threads, (py->n_processes + 1) * sizeof(*py->threads));
		py->threads[py->n_processes] = (struct threads){ .last = NULL };
		p = &py->processes[py->n_processes++];
		*p = (struct python_process){ .serial = t->serial,
					      .pid = t->pid,
					      .minor = t->interpreter.layout.minor };
		memcpy(p->command, t->command, sizeof(p->command));
		log_debug("AGENT-PYTHON", "pid=%u version=3.%d state=sampled command=\"%s\"",
			  p->pid, p->minor, p->command);
	}
	if (t->has_ended && !p->ended_raw_ns)
		p->ended_raw_ns = now_raw_ns();
}

void python_process_release(struct python *py, size_t i)
{
	free(py->processes[i].threads);
	u32_map_release(&py->threads[i].places);
	free(py->threads[i].last);
}

void python_forget_processes(struct python *py, const struct python_targets *ts)
{
	int64_t begin = ring_begin(py->ring);
	size_t n = 0;

	for (size_t i = 0; i < py->n_processes; i++) {
		struct python_process *p = &py->processes[i];
		bool runs = false;

		for (size_t k = 0; k < python_targets_count(ts) && !runs; k++)
			runs = python_targets_get(ts, k)->serial == p->serial;
		if (!runs && !p->ended_raw_ns)
			p->ended_raw_ns = now_raw_ns();
		if (p->ended_raw_ns && p->ended_raw_ns < begin) {
			python_process_release(py, i);
		} else {
			py->threads[n] = py->threads[i];
			py->processes[n++] = *p;
		}
	}
	py->n_processes = n;
}

/* ---- threads ---- */

/* Forgets the threads that have no sample since `begin_raw_ns`. */
static void forget_threads(struct python_process *p, struct threads *ts, int64_t begin_raw_ns)
{
	size_t n = 0;

	u32_map_release(&ts->places);
	for (size_t i = 0; i < p->n_threads; i++) {
		if (ts->last[i].raw_ns < begin_raw_ns)
			continue;
		p->threads[n] = p->threads[i];
		ts->last[n++] = ts->last[i];
		u32_map_set(&ts->places, p->threads[n - 1].tid, (void *)(uintptr_t)n);
	}
	p->n_threads = n;
}

static void reserve_threads(struct python_process *p, struct threads *ts)
{
	if (p->n_threads < ts->cap)
		return;
	ts->cap = ts->cap ? 2 * ts->cap : 4;
	p->threads = xrealloc(p->threads, ts->cap * sizeof(*p->threads));
	ts->last = xrealloc(ts->last, ts->cap * sizeof(*ts->last));
}

/* The last sample of the thread; NULL if the process has too many threads. */
static struct last_sample *find_last(const struct python *py, struct python_process *p,
				     struct threads *ts, const struct handed *sample)
{
	uintptr_t known = (uintptr_t)u32_map_get(&ts->places, sample->tid);
	size_t n;

	if (known)
		return &ts->last[known - 1];
	if (p->n_threads == THREADS_KNOWN)
		forget_threads(p, ts, ring_begin(py->ring));
	if (p->n_threads == THREADS_KNOWN)
		return NULL;
	reserve_threads(p, ts);
	n = p->n_threads++;
	p->threads[n].tid = sample->tid;
	memcpy(p->threads[n].name, sample->name, sizeof(sample->name));
	ts->last[n] = (struct last_sample){ .node = PYTHON_NODE_TORN };
	u32_map_set(&ts->places, sample->tid, (void *)(uintptr_t)(n + 1));
	return &ts->last[n];
}

/* ---- stacks ---- */

static bool keep_stack(void *arg, const struct ring_record *record)
{
	const struct sample_bytes *sample = record->data;
	bool *keep = arg;

	if (sample->node != PYTHON_NODE_TORN)
		keep[sample->node] = true;
	return true;
}

static void forget_nodes(struct python *py, const bool *kept)
{
	for (size_t i = 0; i < py->n_processes; i++)
		for (size_t k = 0; k < py->processes[i].n_threads; k++) {
			uint32_t *node = &py->threads[i].last[k].node;

			if (*node != PYTHON_NODE_TORN && *node != STACK_EMPTY && !kept[*node])
				*node = PYTHON_NODE_TORN;
		}
}

/* Frees the stacks that no sample has any more. A thread whose last stack is freed is copied anew, even if it has not
 * moved. */
static void sweep_stacks(struct python *py)
{
	bool *keep = xcalloc(stacks_count(py->stacks), sizeof(*keep));
	struct ring_cut *all = ring_cut_new(py->ring, INT64_MIN, INT64_MAX);

	ring_cut_each(all, keep_stack, keep);
	ring_cut_free(all);
	stacks_sweep(py->stacks, keep);
	forget_nodes(py, keep);
	free(keep);
	py->is_swept = true;
}

/* Drops the older half of the samples, again and again until a quarter of the tree is free. */
static void free_stacks(struct python *py)
{
	sweep_stacks(py);
	while (!ring_is_empty(py->ring) && stacks_used(py->stacks) > py->nodes_max / 4 * 3) {
		ring_drop_half(py->ring);
		sweep_stacks(py);
	}
}

static uint32_t push_frames(struct python *py, const struct handed *sample,
			    const struct python_frame *frames)
{
	uint32_t node = STACK_EMPTY;

	if (sample->is_cut)
		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = PYTHON_FUNCTION_CUT });
	for (size_t i = sample->n; i > 0 && node != STACK_FULL; i--) {
		const struct python_frame *f = &frames[i - 1];

		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = f->function,
						    .offset = f->line |
							      (f->is_entry ? NODE_IS_ENTRY : 0) });
	}
	return node;
}

static uint32_t node_of(struct python *py, const struct handed *sample,
			const struct python_frame *frames, uint32_t last)
{
	uint32_t node;

	if (sample->result == PYTHON_RESULT_SAME)
		return last;
	if (sample->result != PYTHON_RESULT_NEW)
		return PYTHON_NODE_TORN;
	node = push_frames(py, sample, frames);
	if (node != STACK_FULL)
		return node;
	free_stacks(py);
	node = push_frames(py, sample, frames);
	return node == STACK_FULL ? PYTHON_NODE_TORN : node;
}

void python_take_sample(struct python *py, const struct handed *sample,
			const struct python_frame *frames)
{
	struct python_process *p = python_process_find(py->processes, py->n_processes,
						       sample->serial);
	struct sample_bytes bytes = { sample->serial, sample->tid, PYTHON_NODE_TORN,
				      sample->period_us };
	struct last_sample *last;

	if (!p)
		return;
	last = find_last(py, p, &py->threads[p - py->processes], sample);
	if (last) {
		bytes.node = node_of(py, sample, frames, last->node);
		last->raw_ns = sample->raw_ns;
		if (bytes.node != PYTHON_NODE_TORN)
			last->node = bytes.node;
	}
	ring_add(py->ring, sample->raw_ns, &bytes, sizeof(bytes));
}
