/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/python.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/perf/stacks.h"
#include "agent/pods/local_pods.h"
#include "agent/pods/pod_view.h"
#include "agent/python/python_parts.h"
#include "agent/python/targets.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define SCAN_EVERY_NS (2 * NS_PER_S)
#define NODES_MAX     ((size_t)1 << 18)
/* with a longer period the worker ends instead of waiting for the next round */
#define PERIOD_LONG_NS (60 * NS_PER_MS)
#define LATE_NS	       NS_PER_S
#define THREADS_KNOWN  16384 /* threads of one process, ended ones included */
#define BATCH_NS       (250 * NS_PER_MS) /* the rounds of this time are handed over together */
/* A round that is so much later than planned was not made because the agent did not run. */
#define STOP_NS NS_PER_S

/* A sample that the worker hands over to the loop. */
struct handed {
	uint32_t serial, tid, period_us;
	char name[16];
	enum python_result result;
	int64_t raw_ns;
	size_t first, n; /* its frames in python_worker.frames; only with PYTHON_RESULT_NEW */
	bool is_cut;
};

/* Rounds that were not made. */
struct stop {
	int64_t from_raw_ns, to_raw_ns;
	uint64_t samples; /* that they would have had; 0 = there was no stop */
};

/* A job of several rounds in a row, since each hand-over wakes two threads. Only the worker uses it while it
 * works. */
struct python_worker {
	struct python *owner; /* loop's thread only; NULL when the owner is gone */
	atomic_bool end; /* any thread: end the job and hand over its samples */
	struct python_functions *functions;
	struct python_targets *targets;
	bool scan; /* find processes before sampling */
	struct pod_view *pods; /* a reference, for the scan; NULL = none */
	int hz; /* 0 = no samples */
	int64_t next_mono_ns; /* when the next round is due */
	int64_t period_ns; /* planned time between two rounds */
	int64_t cpu_ns; /* CPU time of the worker's thread when the last round ended */
	struct handed *samples;
	size_t n_samples, cap_samples;
	struct python_frame *frames;
	size_t n_frames, cap_frames;
	struct stop stop; /* since the last hand-over */
};

/* ---- what rounds bring ---- */

static void add_process(struct python *py, const struct python_target *t)
{
	struct python_process *p = python_process_find(py->processes, py->n_processes, t->serial);

	if (!p) {
		py->processes = xrealloc(py->processes,
					 (py->n_processes + 1) * sizeof(*py->processes));
		py->threads = xrealloc(py->threads, (py->n_processes + 1) * sizeof(*py->threads));
		py->threads[py->n_processes] = (struct threads){ .nodes = NULL };
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

static void threads_release(struct threads *ts)
{
	u32_map_release(&ts->places);
	free(ts->nodes);
	free(ts->generations);
}

/* The index of a thread in its process; false if the process has too many threads. */
static bool find_place(struct python_process *p, struct threads *ts, const struct handed *sample,
		       size_t *place)
{
	uintptr_t known = (uintptr_t)u32_map_get(&ts->places, sample->tid);
	size_t n = p->n_threads;

	*place = known - 1;
	if (known)
		return true;
	if (n == THREADS_KNOWN)
		return false;
	if (!(n & (n - 1))) {
		size_t cap = n ? 2 * n : 1;

		p->threads = xrealloc(p->threads, cap * sizeof(*p->threads));
		ts->nodes = xrealloc(ts->nodes, cap * sizeof(*ts->nodes));
		ts->generations = xrealloc(ts->generations, cap * sizeof(*ts->generations));
	}
	p->threads[n].tid = sample->tid;
	memcpy(p->threads[n].name, sample->name, sizeof(sample->name));
	ts->nodes[n] = ts->generations[n] = 0;
	u32_map_set(&ts->places, sample->tid, (void *)(uintptr_t)(n + 1));
	*place = p->n_threads++;
	return true;
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

/* Drops the older half of the samples, again and again until a quarter of the tree is free. */
static void free_stacks(struct python *py)
{
	sweep_stacks(py);
	while (!ring_is_empty(py->ring) && stacks_used(py->stacks) > NODES_MAX / 4 * 3) {
		ring_drop_half(py->ring);
		sweep_stacks(py);
	}
}

static uint32_t push_frames(struct python *py, const struct handed *sample)
{
	uint32_t node = STACK_EMPTY;

	if (sample->is_cut)
		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = PYTHON_FUNCTION_CUT });
	for (size_t i = sample->n; i > 0 && node != STACK_FULL; i--) {
		const struct python_frame *f = &py->worker->frames[sample->first + i - 1];

		node = stacks_push(py->stacks, node,
				   &(struct frame){ .image = f->function,
						    .offset = f->line |
							      (f->is_entry ? NODE_IS_ENTRY : 0) });
	}
	return node;
}

static uint32_t node_of(struct python *py, const struct handed *sample, uint32_t last,
			uint32_t generation)
{
	uint32_t node;

	if (sample->result == PYTHON_RESULT_SAME && generation == py->generation)
		return last;
	if (sample->result != PYTHON_RESULT_NEW)
		return PYTHON_NODE_TORN;
	node = push_frames(py, sample);
	if (node != STACK_FULL)
		return node;
	free_stacks(py);
	node = push_frames(py, sample);
	return node == STACK_FULL ? PYTHON_NODE_TORN : node;
}

static void take_sample(struct python *py, const struct handed *sample)
{
	struct python_process *p = python_process_find(py->processes, py->n_processes,
						       sample->serial);
	struct sample_bytes bytes = { sample->serial, sample->tid, PYTHON_NODE_TORN,
				      sample->period_us };
	struct threads *ts;
	size_t place;

	if (!p)
		return;
	ts = &py->threads[p - py->processes];
	if (find_place(p, ts, sample, &place)) {
		bytes.node = node_of(py, sample, ts->nodes[place], ts->generations[place]);
		if (bytes.node != PYTHON_NODE_TORN) {
			ts->nodes[place] = bytes.node;
			ts->generations[place] = py->generation;
		}
	}
	ring_add(py->ring, sample->raw_ns, &bytes, sizeof(bytes));
}

/* Forgets processes that ended and have no sample in the ring any more. */
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
		if (p->ended_raw_ns && p->ended_raw_ns < begin) {
			free(p->threads);
			threads_release(&py->threads[i]);
		} else {
			py->threads[n] = py->threads[i];
			py->processes[n++] = *p;
		}
	}
	py->n_processes = n;
}

/* ---- the worker ---- */

static void worker_free(struct python_worker *w)
{
	pod_view_release(w->pods);
	python_targets_free(w->targets);
	python_functions_free(w->functions);
	free(w->samples);
	free(w->frames);
	free(w);
}

static size_t keep_frames(struct python_worker *w, const struct python_thread *thread)
{
	size_t first = w->n_frames;

	while (w->cap_frames < first + thread->n_frames) {
		w->cap_frames = w->cap_frames ? 2 * w->cap_frames : 1024;
		w->frames = xrealloc(w->frames, w->cap_frames * sizeof(*w->frames));
	}
	if (thread->n_frames)
		memcpy(w->frames + first, thread->frames, thread->n_frames * sizeof(*w->frames));
	w->n_frames += thread->n_frames;
	return first;
}

static void keep_sample(struct python_worker *w, const struct python_target *t,
			const struct python_thread *thread)
{
	struct handed sample = { .serial = t->serial,
				 .tid = thread->tid,
				 .period_us = (uint32_t)(w->period_ns / NS_PER_US),
				 .result = thread->result,
				 .raw_ns = thread->raw_ns,
				 .is_cut = thread->is_cut };

	memcpy(sample.name, thread->name, sizeof(sample.name));
	if (thread->result == PYTHON_RESULT_NEW) {
		sample.first = keep_frames(w, thread);
		sample.n = thread->n_frames;
	}
	if (w->n_samples == w->cap_samples) {
		w->cap_samples = w->cap_samples ? 2 * w->cap_samples : 64;
		w->samples = xrealloc(w->samples, w->cap_samples * sizeof(*w->samples));
	}
	w->samples[w->n_samples++] = sample;
}

static void keep_round(struct python_worker *w)
{
	for (size_t i = 0; i < python_targets_count(w->targets); i++) {
		const struct python_target *t = python_targets_get(w->targets, i);

		for (size_t k = 0; !t->has_ended && k < t->threads.n_slots; k++) {
			const struct python_thread *thread = u32_map_at(&t->threads, k);

			if (thread && thread->result != PYTHON_RESULT_NONE)
				keep_sample(w, t, thread);
		}
	}
}

/* The round just made, of n samples, came late_ns too late. */
static void note_stop(struct python_worker *w, size_t n, int64_t late_ns)
{
	struct stop *s = &w->stop;

	if (late_ns <= STOP_NS)
		return;
	s->to_raw_ns = now_raw_ns();
	if (!s->samples)
		s->from_raw_ns = s->to_raw_ns - late_ns;
	s->samples += (uint64_t)(late_ns / w->period_ns) * n;
}

/* Makes one round and sets when the next is due: one period later, or later if rounds take more than
 * PYTHON_SHARE of a CPU. If rounds were missed, it is due half a period from now. */
static void run_round(struct python_worker *w)
{
	size_t before = w->n_samples;
	int64_t cpu_ns, now;

	w->period_ns = w->hz && python_targets_count(w->targets) ? NS_PER_S / w->hz : SCAN_EVERY_NS;
	if (w->hz)
		python_targets_sample(w->targets);
	cpu_ns = now_thread_cpu_ns();
	if (w->period_ns < (cpu_ns - w->cpu_ns) * PYTHON_SHARE)
		w->period_ns = (cpu_ns - w->cpu_ns) * PYTHON_SHARE;
	w->cpu_ns = cpu_ns;
	if (w->hz)
		keep_round(w);
	now = now_mono_ns();
	w->next_mono_ns += w->period_ns;
	note_stop(w, w->n_samples - before, now - w->next_mono_ns);
	if (w->next_mono_ns < now)
		w->next_mono_ns = now + w->period_ns / 2;
}

static void run_rounds(void *arg)
{
	struct python_worker *w = arg;
	int64_t until = w->next_mono_ns + BATCH_NS;

	if (w->scan)
		python_targets_scan(w->targets, w->pods);
	w->cpu_ns = now_thread_cpu_ns();
	run_round(w);
	while (w->period_ns <= PERIOD_LONG_NS && w->next_mono_ns < until) {
		now_sleep_until_mono(w->next_mono_ns);
		if (atomic_load_explicit(&w->end, memory_order_relaxed))
			break;
		run_round(w);
	}
}

/* ---- the loop ---- */

static void on_due(void *arg);

static void on_rounds(void *arg)
{
	struct python_worker *w = arg;
	struct python *py = w->owner;

	if (!py) {
		worker_free(w);
		return;
	}
	py->is_busy = false;
	mirror_functions(py);
	py->n_sampled = python_targets_count(w->targets);
	for (size_t i = 0; i < py->n_sampled; i++)
		add_process(py, python_targets_get(w->targets, i));
	for (size_t i = 0; i < w->n_samples; i++)
		take_sample(py, &w->samples[i]);
	w->n_samples = w->n_frames = 0;
	if (w->stop.samples)
		ring_add_gap(py->ring, w->stop.from_raw_ns, w->stop.to_raw_ns, w->stop.samples);
	w->stop.samples = 0;
	if (w->scan) {
		py->unread = *python_targets_unread(w->targets);
		forget_processes(py);
	}
	/* A new rate holds at once. */
	loop_timer_at(py->loop, &py->timer,
		      w->hz == py->hz ? w->next_mono_ns : loop_now_ns(py->loop), on_due, py);
	while (py->n_waiters) {
		struct waiter waiter = py->waiters[--py->n_waiters];

		waiter.fn(waiter.arg);
	}
}

static void on_due(void *arg)
{
	struct python *py = arg;
	struct python_worker *w = py->worker;
	int64_t now = loop_now_ns(py->loop);

	w->scan = !py->scanned_mono_ns || now - py->scanned_mono_ns >= SCAN_EVERY_NS;
	if (w->scan) {
		py->scanned_mono_ns = now;
		pod_view_release(w->pods);
		w->pods = local_pods_view(py->pods);
	}
	w->hz = py->hz;
	if (!w->next_mono_ns || w->next_mono_ns > now)
		w->next_mono_ns = now;
	atomic_store_explicit(&w->end, false, memory_order_relaxed);
	py->is_busy = true;
	loop_work(py->loop, run_rounds, on_rounds, w);
}

static void end_batch(struct python *py)
{
	atomic_store_explicit(&py->worker->end, true, memory_order_relaxed);
}

void python_when_current(struct python *py, void (*fn)(void *arg), void *arg)
{
	if (!py->is_busy) {
		fn(arg);
		return;
	}
	py->waiters = xrealloc(py->waiters, (py->n_waiters + 1) * sizeof(*py->waiters));
	py->waiters[py->n_waiters++] = (struct waiter){ fn, arg };
	end_batch(py);
}

void python_forget(struct python *py, const void *arg)
{
	size_t n = 0;

	for (size_t i = 0; i < py->n_waiters; i++)
		if (py->waiters[i].arg != arg)
			py->waiters[n++] = py->waiters[i];
	py->n_waiters = n;
}

struct python *python_new(struct loop *l, const struct ring_limits *limits,
			  const struct local_pods *pods)
{
	struct python *py = xcalloc(1, sizeof(*py));

	py->loop = l;
	py->limits = *limits;
	py->pods = pods;
	return py;
}

void python_free(struct python *py)
{
	if (!py)
		return;
	loop_timer_cancel(py->loop, &py->timer);
	if (py->is_busy) {
		py->worker->owner = NULL; /* on_rounds() frees it */
		end_batch(py);
	} else if (py->worker) {
		worker_free(py->worker);
	}
	for (size_t i = 0; i < py->n_processes; i++) {
		free(py->processes[i].threads);
		threads_release(&py->threads[i]);
	}
	free(py->processes);
	free(py->threads);
	free(py->waiters);
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
	on_due(py);
}

void python_set_hz(struct python *py, int hz)
{
	if (py->hz == hz || !py->ring)
		return;
	py->hz = hz;
	if (py->is_busy)
		end_batch(py);
	else
		loop_timer_at(py->loop, &py->timer, loop_now_ns(py->loop), on_due, py);
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
