/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/python.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/perf/stacks.h"
#include "agent/pods/local_pods.h"
#include "agent/pods/pod_view.h"
#include "agent/python/python_parts.h"
#include "agent/python/sampler.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define NODES_MAX ((size_t)1 << 18)
#define LATE_NS	  NS_PER_S

/* Only the worker uses it while it works. */
struct python_worker {
	struct python *owner; /* loop's thread only; NULL when the owner is gone */
	struct python_functions *functions;
	struct python_sampler *sampler;
	struct pod_view *pods; /* a reference, for the scan; NULL = none */
	struct python_order order;
	const struct python_brought *brought; /* the sampler's */
};

static void worker_free(struct python_worker *w)
{
	pod_view_release(w->pods);
	python_sampler_free(w->sampler);
	python_functions_free(w->functions);
	free(w);
}

/* On a worker. */
static void run_rounds(void *arg)
{
	struct python_worker *w = arg;

	w->brought = python_sampler_run(w->sampler, &w->order, w->pods);
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

/* Before the table is full: what a report brings has room, so that no function of it is taken for another one. */
static void make_room_for_functions(struct python *py)
{
	struct python_worker *w = py->worker;

	if (python_functions_used(w->functions) < PYTHON_FUNCTIONS_MUCH)
		return;
	python_forget_functions(py, w->functions);
	w->order.must_forget_functions = true;
	mirror_functions(py);
}

/* Calls those that wait until that time or a time before. */
static void call_waiters(struct python *py, int64_t until_mono_ns)
{
	for (size_t i = py->n_waiters; i-- > 0;) {
		struct waiter waiter;

		if (i >= py->n_waiters || py->waiters[i].until_mono_ns > until_mono_ns)
			continue;
		waiter = py->waiters[i];
		py->waiters[i] = py->waiters[--py->n_waiters];
		waiter.fn(waiter.arg);
	}
}

static void on_waited(void *arg);

static void set_waiters_timer(struct python *py)
{
	int64_t first_ns = INT64_MAX;

	for (size_t i = 0; i < py->n_waiters; i++)
		if (py->waiters[i].until_mono_ns < first_ns)
			first_ns = py->waiters[i].until_mono_ns;
	if (py->n_waiters)
		loop_timer_at(py->loop, &py->waiters_timer, first_ns, on_waited, py);
	else
		loop_timer_cancel(py->loop, &py->waiters_timer);
}

/* The rounds hang. */
static void on_waited(void *arg)
{
	struct python *py = arg;

	call_waiters(py, loop_now_ns(py->loop));
	set_waiters_timer(py);
}

static void take_rounds(struct python *py, const struct python_brought *b)
{
	mirror_functions(py);
	loop_account_add(py->loop, b->head.cpu_ns);
	py->n_sampled = b->head.n_sampled;
	py->unread = b->head.unread;
	py->n_crowded = 0;
	for (size_t i = 0; i < b->head.n_sampled; i++) {
		python_take_process(py, &b->sampled[i]);
		py->n_crowded += b->sampled[i].is_crowded;
	}
	for (size_t i = 0; i < b->head.n_samples; i++)
		python_take_sample(py, &b->samples[i], b->frames + b->samples[i].first);
	if (b->head.stop.samples)
		ring_add_gap(py->ring, b->head.stop.from_raw_ns, b->head.stop.to_raw_ns,
			     b->head.stop.samples);
	if (b->head.left_out)
		ring_add_loss(py->ring, now_raw_ns(), b->head.left_out);
	if (b->head.has_scanned)
		python_forget_processes(py, b->sampled, b->head.n_sampled);
	if (b->is_lost)
		py->scanned_mono_ns = 0;
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
	if (!w->brought->is_lost)
		w->order.must_forget_functions = w->order.must_renew = false;
	take_rounds(py, w->brought);
	make_room_for_functions(py);
	w->order.must_renew |= py->must_renew;
	py->must_renew = false;
	w->order.next_mono_ns = w->brought->head.next_mono_ns;
	/* A new rate holds at once. */
	loop_timer_at(py->loop, &py->timer,
		      w->order.hz == py->hz ? w->order.next_mono_ns : loop_now_ns(py->loop), on_due,
		      py);
	call_waiters(py, INT64_MAX);
	set_waiters_timer(py);
}

static void on_due(void *arg)
{
	struct python *py = arg;
	struct python_worker *w = py->worker;
	int64_t now = loop_now_ns(py->loop);

	w->order.must_scan = !py->scanned_mono_ns ||
			     now - py->scanned_mono_ns >= PYTHON_SCAN_EVERY_NS;
	if (w->order.must_scan)
		py->scanned_mono_ns = now;
	pod_view_release(w->pods);
	w->pods = local_pods_view(py->pods);
	w->order.hz = py->hz;
	if (!w->order.next_mono_ns || w->order.next_mono_ns > now)
		w->order.next_mono_ns = now;
	python_sampler_begin(w->sampler);
	py->is_busy = true;
	loop_work(py->loop, run_rounds, on_rounds, w);
}

static void end_batch(struct python *py)
{
	python_sampler_end_rounds(py->worker->sampler);
}

void python_when_current(struct python *py, int64_t until_mono_ns, void (*fn)(void *arg), void *arg)
{
	/* While no reader makes rounds, what is lost is known up to the last attempt only. */
	if (!py->is_busy && py->worker && py->worker->brought->is_lost) {
		loop_timer_cancel(py->loop, &py->timer);
		on_due(py);
	}
	if (!py->is_busy) {
		fn(arg);
		return;
	}
	py->waiters = xrealloc(py->waiters, (py->n_waiters + 1) * sizeof(*py->waiters));
	py->waiters[py->n_waiters++] = (struct waiter){ fn, arg, until_mono_ns };
	set_waiters_timer(py);
	end_batch(py);
}

void python_forget(struct python *py, const void *arg)
{
	size_t n = 0;

	for (size_t i = 0; i < py->n_waiters; i++)
		if (py->waiters[i].arg != arg)
			py->waiters[n++] = py->waiters[i];
	py->n_waiters = n;
	set_waiters_timer(py);
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
	loop_timer_cancel(py->loop, &py->waiters_timer);
	if (py->is_busy) {
		py->worker->owner = NULL; /* on_rounds() frees it */
		python_sampler_stop(py->worker->sampler);
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
	py->worker->sampler = python_sampler_new(py->worker->functions, py->files);
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
