/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/python.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/perf/stacks.h"
#include "agent/python/python_parts.h"
#include "agent/python/targets.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define SCAN_EVERY_NS (2 * NS_PER_S)
#define NODES_MAX     ((size_t)1 << 18)
#define LATE_NS	      NS_PER_S
#define THREADS_NAMED 4096 /* of one process, whose names are kept */

/* The worker's while it works. */
struct python_worker {
	struct python *owner; /* loop's thread only; NULL when the owner is gone */
	struct python_functions *functions;
	struct python_targets *targets;
	bool scan; /* find processes before sampling */
	bool sample;
	int64_t cost_ns; /* of CPU */
};

/* ---- what rounds bring ---- */

static struct python_process *find_process(struct python *py, const struct python_target *t)
{
	struct python_process *p = python_process_find(py->processes, py->n_processes, t->serial);

	if (p)
		return p;
	py->processes = xrealloc(py->processes, (py->n_processes + 1) * sizeof(*py->processes));
	p = &py->processes[py->n_processes++];
	*p = (struct python_process){ .serial = t->serial,
				      .pid = t->pid,
				      .minor = t->interpreter.layout.minor };
	memcpy(p->command, t->command, sizeof(p->command));
	log_debug("AGENT-PYTHON", "pid=%u version=3.%d state=sampled command=\"%s\"", p->pid,
		  p->minor, p->command);
	return p;
}

static void note_name(struct python_process *p, const struct python_thread *thread)
{
	struct python_thread_name *name;

	if (p->n_threads == THREADS_NAMED)
		return;
	if (!(p->n_threads & (p->n_threads - 1)))
		p->threads = xrealloc(p->threads,
				      (p->n_threads ? 2 * p->n_threads : 1) * sizeof(*p->threads));
	name = &p->threads[p->n_threads++];
	name->tid = thread->tid;
	memcpy(name->name, thread->name, sizeof(name->name));
}

/* The functions that the worker added; they never change. */
static void mirror_functions(struct python *py)
{
	size_t n = python_functions_count(py->worker->functions);

	if (n == py->n_functions)
		return;
	py->functions = xrealloc(py->functions, n * sizeof(const struct python_function *));
	for (; py->n_functions < n; py->n_functions++)
		py->functions[py->n_functions] = python_functions_get(py->worker->functions,
								      (uint32_t)py->n_functions);
}

static bool keep_stack(void *arg, const struct ring_record *record)
{
	const struct sample_bytes *sample = record->data;
	bool *keep = arg;

	if (sample->node != PYTHON_NODE_TORN)
		keep[sample->node] = true;
	return true;
}

/* Frees the stacks that no sample has any more. */
static void sweep_stacks(struct python *py)
{
	bool *keep = xcalloc(stacks_count(py->stacks), sizeof(*keep));
	struct ring_cut *all = ring_cut_new(py->ring, INT64_MIN, INT64_MAX);

	ring_cut_each(all, keep_stack, keep);
	ring_cut_free(all);
	stacks_sweep(py->stacks, keep);
	free(keep);
	py->generation++;
}

/* Drops the older half of the samples as often as needed until a quarter of the tree is free. */
static void free_stacks(struct python *py)
{
	sweep_stacks(py);
	while (!ring_is_empty(py->ring) && stacks_used(py->stacks) > NODES_MAX / 4 * 3) {
		ring_drop_half(py->ring);
		sweep_stacks(py);
	}
}

static uint32_t push_frames(struct python *py, const struct python_thread *thread)
{
	uint32_t node = STACK_EMPTY;

	if (thread->is_cut)
		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = PYTHON_FUNCTION_CUT });
	for (size_t i = thread->n_frames; i > 0 && node != STACK_FULL; i--) {
		const struct python_frame *f = &thread->frames[i - 1];

		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = f->function,
						    .offset = f->line |
							      (f->is_entry ? NODE_IS_ENTRY : 0) });
	}
	return node;
}

static uint32_t node_of(struct python *py, struct python_thread *thread)
{
	if (thread->result == PYTHON_RESULT_TORN)
		return PYTHON_NODE_TORN;
	if (thread->result == PYTHON_RESULT_SAME && thread->generation == py->generation)
		return thread->node;
	thread->node = push_frames(py, thread);
	if (thread->node == STACK_FULL) {
		free_stacks(py);
		thread->node = push_frames(py, thread);
	}
	if (thread->node == STACK_FULL)
		return PYTHON_NODE_TORN;
	thread->generation = py->generation;
	return thread->node;
}

static void take_samples(struct python *py, const struct python_target *t)
{
	struct python_process *p = find_process(py, t);

	if (t->has_ended) {
		p->ended_raw_ns = now_raw_ns();
		return;
	}
	for (size_t i = 0; i < t->threads.n_slots; i++) {
		struct python_thread *thread = u32_map_at(&t->threads, i);
		struct sample_bytes sample;

		if (!thread || thread->result == PYTHON_RESULT_NONE)
			continue;
		if (!thread->generation && thread->result != PYTHON_RESULT_TORN)
			note_name(p, thread);
		sample = (struct sample_bytes){ .process = p->serial,
						.tid = thread->tid,
						.node = node_of(py, thread),
						.period_us = (uint32_t)(py->period_ns /
									NS_PER_US) };
		ring_add(py->ring, thread->raw_ns, &sample, sizeof(sample));
	}
}

/* Processes of which the ring has no sample any more. */
static void forget_processes(struct python *py)
{
	const struct python_targets *ts = py->worker->targets;
	int64_t begin = ring_begin(py->ring);
	size_t n = 0;

	for (size_t i = 0; i < py->n_processes; i++) {
		struct python_process *p = &py->processes[i];
		bool runs = false;

		for (size_t k = 0; k < python_targets_count(ts) && !runs; k++)
			runs = python_targets_get(ts, k)->serial == p->serial;
		if (!runs && !p->ended_raw_ns)
			p->ended_raw_ns = now_raw_ns();
		if (p->ended_raw_ns && p->ended_raw_ns < begin)
			free(p->threads);
		else
			py->processes[n++] = *p;
	}
	py->n_processes = n;
}

/* ---- rounds ---- */

static void worker_free(struct python_worker *w)
{
	python_targets_free(w->targets);
	python_functions_free(w->functions);
	free(w);
}

static void run_round(void *arg)
{
	struct python_worker *w = arg;
	int64_t cpu_ns;

	if (w->scan)
		python_targets_scan(w->targets);
	cpu_ns = now_thread_cpu_ns();
	if (w->sample)
		python_targets_sample(w->targets);
	w->cost_ns = now_thread_cpu_ns() - cpu_ns;
}

static void on_due(void *arg);

static int64_t wanted_period_ns(const struct python *py)
{
	return py->hz ? NS_PER_S / py->hz : SCAN_EVERY_NS;
}

/* The next round keeps the beat; it comes later where rounds cost more than their share of a CPU, or are late. */
static void plan_round(struct python *py)
{
	const struct python_worker *w = py->worker;
	bool any = w->targets && python_targets_count(w->targets) && py->hz;
	int64_t now = loop_now_ns(py->loop), next;

	py->period_ns = any ? wanted_period_ns(py) : SCAN_EVERY_NS;
	if (any && py->period_ns < w->cost_ns * PYTHON_SHARE)
		py->period_ns = w->cost_ns * PYTHON_SHARE;
	next = py->began_mono_ns + py->period_ns;
	loop_timer_at(py->loop, &py->timer, next > now ? next : now, on_due, py);
}

static void on_round(void *arg)
{
	struct python_worker *w = arg;
	struct python *py = w->owner;

	if (!py) {
		worker_free(w);
		return;
	}
	py->is_busy = false;
	mirror_functions(py);
	for (size_t i = 0; w->sample && i < python_targets_count(w->targets); i++)
		take_samples(py, python_targets_get(w->targets, i));
	if (w->scan) {
		py->unread = *python_targets_unread(w->targets);
		forget_processes(py);
	}
	py->n_sampled = python_targets_count(w->targets);
	plan_round(py);
}

static void on_due(void *arg)
{
	struct python *py = arg;
	struct python_worker *w = py->worker;
	int64_t now = loop_now_ns(py->loop);

	if (py->is_busy)
		return; /* its end plans the next one */
	/* Rounds that were missed are not made up for. */
	if (now - py->began_mono_ns < 2 * py->period_ns)
		py->began_mono_ns += py->period_ns;
	else
		py->began_mono_ns = now;
	w->scan = !py->scanned_mono_ns || now - py->scanned_mono_ns >= SCAN_EVERY_NS;
	if (w->scan)
		py->scanned_mono_ns = now;
	w->sample = py->hz > 0;
	py->is_busy = true;
	loop_work(py->loop, run_round, on_round, w);
}

struct python *python_new(struct loop *l, const struct ring_limits *limits)
{
	struct python *py = xcalloc(1, sizeof(*py));

	py->loop = l;
	py->limits = *limits;
	return py;
}

void python_free(struct python *py)
{
	if (!py)
		return;
	loop_timer_cancel(py->loop, &py->timer);
	if (py->is_busy)
		py->worker->owner = NULL; /* on_round() frees it */
	else if (py->worker)
		worker_free(py->worker);
	for (size_t i = 0; i < py->n_processes; i++)
		free(py->processes[i].threads);
	free(py->processes);
	free(py->functions);
	stacks_free(py->stacks);
	ring_free(py->ring);
	free(py);
}

/* Seccomp may refuse the call, and a kernel may be built without it. */
static int probe_errno(void)
{
	uint32_t pid = (uint32_t)getpid();
	char from = 0, to;
	const struct python_range range = { (uintptr_t)&from, &to, 1 };

	errno = 0;
	return python_memory_of_process(&pid, &range, 1) == 1 ? 0 : errno;
}

void python_start(struct python *py, int hz)
{
	if (py->ring)
		return;
	py->ring = ring_new(&(struct ring_conf){ .limits = py->limits,
						 .record_bytes = sizeof(struct sample_bytes),
						 .late_ns = LATE_NS,
						 .begin_raw_ns = now_raw_ns() });
	py->stacks = stacks_new(NODES_MAX);
	py->generation = 1;
	py->probe_errno = probe_errno();
	py->worker = xcalloc(1, sizeof(*py->worker));
	py->worker->owner = py;
	py->worker->functions = python_functions_new();
	py->worker->targets = python_targets_new(py->worker->functions);
	py->hz = hz;
	py->period_ns = SCAN_EVERY_NS;
	on_due(py);
}

void python_set_hz(struct python *py, int hz)
{
	if (py->hz == hz || !py->ring)
		return;
	py->hz = hz;
	if (!py->is_busy)
		plan_round(py);
}

struct ring *python_ring(const struct python *py)
{
	return py->ring;
}

void python_get_health(const struct python *py, struct python_health *out)
{
	*out = (struct python_health){ .sampled = py->n_sampled,
				       .denied = py->unread.denied,
				       .unsupported = py->unread.unsupported,
				       .is_own_only = py->unread.is_own_only,
				       .errno_value = py->probe_errno };
	memcpy(out->denied_why, py->unread.denied_why, sizeof(out->denied_why));
	memcpy(out->unsupported_why, py->unread.unsupported_why, sizeof(out->unsupported_why));
}
