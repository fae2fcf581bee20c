/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/perf/stacks.h"
#include "agent/python/python_parts.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

/* ---- processes ---- */

void python_take_process(struct python *py, const struct python_sampled *sampled)
{
	struct python_process *p = python_process_find(py->processes, py->n_processes,
						       sampled->serial);

	if (!p) {
		py->processes = xrealloc(py->processes,
					 (py->n_processes + 1) * sizeof(*py->processes));
		py->threads = xrealloc(py->threads, (py->n_processes + 1) * sizeof(*py->threads));
		py->threads[py->n_processes] = (struct threads){ .last = NULL };
		p = &py->processes[py->n_processes++];
		*p = (struct python_process){ .serial = sampled->serial,
					      .pid = sampled->pid,
					      .minor = sampled->minor };
		log_debug("AGENT-PYTHON", "pid=%u version=3.%d state=sampled command=\"%s\"",
			  p->pid, p->minor, sampled->command);
	}
	memcpy(p->command, sampled->command, sizeof(p->command));
	p->rare_us = sampled->period_us;
	if (sampled->has_ended && !p->ended_raw_ns)
		p->ended_raw_ns = now_raw_ns();
}

void python_process_release(struct python *py, size_t i)
{
	free(py->processes[i].threads);
	u32_map_release(&py->threads[i].places);
	free(py->threads[i].last);
}

void python_forget_processes(struct python *py, const struct python_sampled *sampled, size_t n)
{
	int64_t begin = ring_begin(py->ring);
	size_t left = 0;

	for (size_t i = 0; i < py->n_processes; i++) {
		struct python_process *p = &py->processes[i];
		bool runs = false;

		for (size_t k = 0; k < n && !runs; k++)
			runs = sampled[k].serial == p->serial;
		if (!runs && !p->ended_raw_ns)
			p->ended_raw_ns = now_raw_ns();
		if (p->ended_raw_ns && p->ended_raw_ns < begin) {
			python_process_release(py, i);
		} else {
			py->threads[left] = py->threads[i];
			py->processes[left++] = *p;
		}
	}
	py->n_processes = left;
}

/* ---- threads ---- */

static void unlist(struct threads *ts, uint32_t place)
{
	const struct last_sample *last = &ts->last[place - 1];

	*(last->older ? &ts->last[last->older - 1].newer : &ts->oldest) = last->newer;
	*(last->newer ? &ts->last[last->newer - 1].older : &ts->newest) = last->older;
}

static void list_as_newest(struct threads *ts, uint32_t place)
{
	struct last_sample *last = &ts->last[place - 1];

	last->older = ts->newest;
	last->newer = 0;
	*(ts->newest ? &ts->last[ts->newest - 1].newer : &ts->oldest) = place;
	ts->newest = place;
}

static uint32_t add_place(struct python_process *p, struct threads *ts)
{
	if (p->n_threads == ts->cap) {
		ts->cap = ts->cap ? 2 * ts->cap : 4;
		p->threads = xrealloc(p->threads, ts->cap * sizeof(*p->threads));
		ts->last = xrealloc(ts->last, ts->cap * sizeof(*ts->last));
	}
	return (uint32_t)++p->n_threads;
}

/* The place of the thread that has no sample for longest; 0 if it has one in the ring. */
static uint32_t take_oldest_place(const struct python *py, const struct python_process *p,
				  struct threads *ts)
{
	uint32_t place = ts->oldest;

	if (ts->last[place - 1].raw_ns >= ring_begin(py->ring))
		return 0;
	unlist(ts, place);
	u32_map_remove(&ts->places, p->threads[place - 1].tid);
	return place;
}

/* The last sample of the thread, which is the newest from now on; NULL if the process has too many threads. */
static struct last_sample *find_last(const struct python *py, struct python_process *p,
				     struct threads *ts, const struct handed *sample)
{
	uint32_t place = (uint32_t)(uintptr_t)u32_map_get(&ts->places, sample->tid);

	if (place) {
		unlist(ts, place);
	} else {
		place = p->n_threads < THREADS_KNOWN ? add_place(p, ts)
						     : take_oldest_place(py, p, ts);
		if (!place)
			return NULL;
		p->threads[place - 1].tid = sample->tid;
		memcpy(p->threads[place - 1].name, sample->name, sizeof(sample->name));
		ts->last[place - 1] = (struct last_sample){ .node = PYTHON_NODE_TORN };
		u32_map_set(&ts->places, sample->tid, (void *)(uintptr_t)place);
	}
	list_as_newest(ts, place);
	ts->last[place - 1].raw_ns = sample->raw_ns;
	return &ts->last[place - 1];
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
	py->must_renew = true;
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

static void sweep_functions(const struct python *py, struct python_functions *fs)
{
	bool *keep = xcalloc(python_functions_count(fs), sizeof(*keep));

	for (uint32_t i = 1; i < stacks_count(py->stacks); i++) {
		const struct stack_node *node = stacks_node(py->stacks, i);

		if (node)
			keep[node->image] = true;
	}
	python_functions_sweep(fs, keep);
	free(keep);
}

void python_forget_functions(struct python *py, struct python_functions *fs)
{
	sweep_stacks(py);
	sweep_functions(py, fs);
	while (!ring_is_empty(py->ring) &&
	       python_functions_used(fs) > PYTHON_FUNCTIONS_MAX / 4 * 3) {
		ring_drop_half(py->ring);
		sweep_stacks(py);
		sweep_functions(py, fs);
	}
}

static uint32_t push_frames(struct python *py, const struct handed *sample,
			    const struct handed_frame *frames)
{
	uint32_t node = STACK_EMPTY;

	if (sample->is_cut)
		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = PYTHON_FUNCTION_CUT });
	for (size_t i = sample->n; i > 0 && node != STACK_FULL; i--) {
		const struct handed_frame *f = &frames[i - 1];

		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = f->function,
						    .offset = f->line |
							      (f->is_entry ? NODE_IS_ENTRY : 0) });
	}
	return node;
}

static uint32_t node_of(struct python *py, const struct handed *sample,
			const struct handed_frame *frames, uint32_t last)
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
			const struct handed_frame *frames)
{
	struct python_process *p = python_process_find(py->processes, py->n_processes,
						       sample->serial);
	struct sample_bytes bytes = { sample->serial, sample->tid, PYTHON_NODE_TORN,
				      sample->period_us };
	struct last_sample *last;

	if (!p)
		return;
	if (!p->first_raw_ns)
		p->first_raw_ns = sample->raw_ns;
	last = find_last(py, p, &py->threads[p - py->processes], sample);
	if (last) {
		bytes.node = node_of(py, sample, frames, last->node);
		if (sample->result == PYTHON_RESULT_NEW)
			last->node = bytes.node;
		/* there was no room for the stack when it was new */
		if (sample->result == PYTHON_RESULT_SAME && bytes.node == PYTHON_NODE_TORN)
			py->must_renew = true;
	}
	ring_add(py->ring, sample->raw_ns, &bytes, sizeof(bytes));
}
