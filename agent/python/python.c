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
/* with a longer period the worker ends instead of waiting for the next round */
#define PERIOD_LONG_NS (60 * NS_PER_MS)
#define NODES_MAX      ((size_t)1 << 18)
#define FUNCTIONS_MUCH ((size_t)PYTHON_FUNCTIONS_MAX / 8 * 7)
#define LATE_NS	       NS_PER_S
#define BATCH_NS       (250 * NS_PER_MS) /* the rounds of this time are handed over together */
/* CPU time beyond the share after which all rounds come later: the parts of the processes keep the share, but what they
 * need is not known before */
#define OVER_MAX_NS (100 * NS_PER_MS)
/* A round that is so much later than planned was not made because the agent did not run. */
#define STOP_NS NS_PER_S

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
	int64_t over_ns; /* what rounds took beyond the share */
	struct handed *samples;
	size_t n_samples, cap_samples;
	struct python_frame *frames;
	size_t n_frames, cap_frames;
	struct stop stop; /* since the last hand-over */
	uint64_t left_out; /* samples of threads beyond the limits, since then */
};

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

/* The planned time until the process's next sample. */
static uint32_t period_us(const struct python_worker *w, const struct python_target *t)
{
	int64_t us = w->period_ns / NS_PER_US;

	return us < UINT32_MAX / t->next_rounds ? (uint32_t)us * t->next_rounds : UINT32_MAX;
}

static void keep_sample(struct python_worker *w, const struct python_target *t,
			const struct python_thread *thread)
{
	struct handed sample = { .serial = t->serial,
				 .tid = thread->tid,
				 .period_us = period_us(w, t),
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

		if (t->is_sampled && !t->has_ended)
			w->left_out += t->left_out;
		for (size_t k = 0; t->is_sampled && !t->has_ended && k < t->threads.n_slots; k++) {
			const struct python_thread *thread = u32_map_at(&t->threads, k);

			if (thread && thread->result != PYTHON_RESULT_NONE)
				keep_sample(w, t, thread);
		}
	}
}

/* The round just made came late_ns too late. */
static void note_stop(struct python_worker *w, int64_t late_ns)
{
	struct stop *s = &w->stop;

	if (late_ns <= STOP_NS)
		return;
	s->to_raw_ns = now_raw_ns();
	if (!s->samples)
		s->from_raw_ns = s->to_raw_ns - late_ns;
	for (size_t i = 0; w->hz && i < python_targets_count(w->targets); i++) {
		const struct python_target *t = python_targets_get(w->targets, i);

		if (t->next_rounds)
			s->samples += (uint64_t)(late_ns / w->period_ns) * t->threads.n /
				      t->next_rounds;
	}
}

/* Adds what the round took; the period becomes longer if that is too much. */
static void take_account(struct python_worker *w)
{
	int64_t cpu_ns = now_thread_cpu_ns();

	w->over_ns += cpu_ns - w->cpu_ns - w->period_ns / PYTHON_SHARE;
	w->cpu_ns = cpu_ns;
	if (w->over_ns < 0)
		w->over_ns = 0;
	if (w->over_ns > OVER_MAX_NS) {
		w->period_ns += (w->over_ns - OVER_MAX_NS) * PYTHON_SHARE;
		w->over_ns = OVER_MAX_NS;
	}
}

/* Makes one round and sets when the next is due: one period later. If rounds were missed, it is due half a period
 * from now. */
static void run_round(struct python_worker *w)
{
	int64_t now;

	w->period_ns = w->hz && python_targets_count(w->targets) ? NS_PER_S / w->hz : SCAN_EVERY_NS;
	if (w->hz)
		python_targets_sample(w->targets, w->period_ns / PYTHON_SHARE);
	take_account(w);
	if (w->hz)
		keep_round(w);
	now = now_mono_ns();
	w->next_mono_ns += w->period_ns;
	note_stop(w, now - w->next_mono_ns);
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

/* The functions that the worker knows, each of which never changes. */
static void mirror_functions(struct python *py)
{
	const struct python_functions *fs = py->worker->functions;

	if (python_functions_changes(fs) == py->functions_changes)
		return;
	py->functions_changes = python_functions_changes(fs);
	py->n_functions = python_functions_count(fs);
	py->functions = xrealloc(py->functions,
				 py->n_functions * sizeof(const struct python_function *));
	for (uint32_t i = 0; i < py->n_functions; i++)
		py->functions[i] = python_functions_get(fs, i);
}

/* Before the table is full: what a batch brings has room, so that no function of it is taken for another one. */
static void make_room_for_functions(struct python *py)
{
	struct python_worker *w = py->worker;

	if (python_functions_used(w->functions) < FUNCTIONS_MUCH)
		return;
	python_forget_functions(py, w->functions);
	python_targets_forget_functions(w->targets);
	mirror_functions(py);
}

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
	py->n_crowded = 0;
	for (size_t i = 0; i < py->n_sampled; i++) {
		python_take_process(py, python_targets_get(w->targets, i));
		py->n_crowded += python_targets_get(w->targets, i)->is_crowded;
	}
	for (size_t i = 0; i < w->n_samples; i++)
		python_take_sample(py, &w->samples[i], w->frames + w->samples[i].first);
	make_room_for_functions(py);
	if (py->must_renew)
		python_targets_renew(w->targets);
	py->must_renew = false;
	w->n_samples = w->n_frames = 0;
	if (w->stop.samples)
		ring_add_gap(py->ring, w->stop.from_raw_ns, w->stop.to_raw_ns, w->stop.samples);
	w->stop.samples = 0;
	if (w->left_out)
		ring_add_loss(py->ring, now_raw_ns(), w->left_out);
	w->left_out = 0;
	if (w->scan) {
		py->unread = *python_targets_unread(w->targets);
		python_forget_processes(py, w->targets);
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
			  const struct local_pods *pods, const struct file_keeper *files)
{
	struct python *py = xcalloc(1, sizeof(*py));

	py->loop = l;
	py->limits = *limits;
	py->pods = pods;
	py->files = files;
	return py;
}

void python_free(struct python *py)
{
	if (!py)
		return;
	loop_timer_cancel(py->loop, &py->timer);
	if (py->is_busy) {
		py->worker->owner = NULL; /* on_rounds() frees it */
		python_targets_stop(py->worker->targets);
		end_batch(py);
	} else if (py->worker) {
		worker_free(py->worker);
	}
	for (size_t i = 0; i < py->n_processes; i++)
		python_process_release(py, i);
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
	py->nodes_max = NODES_MAX;
	py->stacks = stacks_new(py->nodes_max);
	py->probe_errno = probe_errno();
	py->worker = xcalloc(1, sizeof(*py->worker));
	py->worker->owner = py;
	py->worker->functions = python_functions_new();
	py->worker->targets = python_targets_new(py->worker->functions, py->files);
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
				       .left_out = py->unread.left_out,
				       .crowded = py->n_crowded,
				       .is_own_only = py->unread.is_own_only,
				       .errno_value = py->probe_errno };
	memcpy(out->denied_why, py->unread.denied_why, sizeof(out->denied_why));
	memcpy(out->unsupported_why, py->unread.unsupported_why, sizeof(out->unsupported_why));
}
