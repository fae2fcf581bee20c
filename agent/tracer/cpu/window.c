/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/cpu/window.h"

#include <linux/perf_event.h>
#include <string.h>

#include "agent/tracer/cpu/window_parts.h"
#include "base/mem.h"
#include "base/now.h"

/* Most records that wait for their flush: more of them mean that a clock is wrong. */
#define FED_BYTES_MAX (64U << 20)

#define SWEEP_EVERY_NS (10 * NS_PER_S)

/* How late a record may come into the ring: a flush puts records in order, but those of the newest instant may
 * be divided among two flushes. */
#define LATE_NS NS_PER_S

struct cpu_window *cpu_window_new(const struct cpu_window_conf *conf)
{
	struct cpu_window *w = xcalloc(1, sizeof(*w));

	w->images = images_new(conf->max_images);
	w->processes = processes_new(w->images);
	w->threads = threads_new();
	w->max_nodes = conf->max_nodes;
	w->stacks = stacks_new(conf->max_nodes);
	w->first_unnamed = 1;
	w->ring = ring_new(&(struct ring_conf){ .limits = conf->ring,
						.record_bytes = sizeof(struct sample_bytes),
						.late_ns = LATE_NS,
						.begin_raw_ns = conf->now_raw_ns });
	return w;
}

void cpu_window_free(struct cpu_window *w)
{
	if (!w)
		return;
	stacks_free(w->stacks);
	processes_free(w->processes);
	threads_free(w->threads);
	images_free(w->images);
	free(w->fed_raw_ns);
	buf_release(&w->fed);
	free(w->pending);
	ring_free(w->ring);
	free(w);
}

struct ring *cpu_window_ring(const struct cpu_window *w)
{
	return w->ring;
}

uint64_t cpu_window_samples(const struct cpu_window *w)
{
	return w->n;
}

size_t cpu_window_nodes(const struct cpu_window *w)
{
	return stacks_used(w->stacks);
}

/* ---- the limit of the tree of stacks ---- */

static void sweep_images(struct cpu_window *w)
{
	bool *used = xcalloc(images_count(w->images), sizeof(*used));

	for (uint32_t i = 1; i < stacks_count(w->stacks); i++)
		if (stacks_node(w->stacks, i))
			used[stacks_node(w->stacks, i)->image] = true;
	processes_mark_images(w->processes, used);
	images_sweep(w->images, used);
	free(used);
}

static bool keep_stack(void *arg, const struct ring_record *record)
{
	const struct sample_bytes *sample = record->data;
	bool *keep = arg;

	keep[sample->node] = true;
	return true;
}

/* Frees the stacks that no sample has any more, in memory or in the ring's file. */
static void sweep_stacks(struct cpu_window *w)
{
	bool *keep = xcalloc(stacks_count(w->stacks), sizeof(*keep));
	struct ring_cut *all = ring_cut_new(w->ring, INT64_MIN, INT64_MAX);

	ring_cut_each(all, keep_stack, keep);
	ring_cut_free(all);
	stacks_sweep(w->stacks, keep);
	free(keep);
	w->generation++;
	sweep_images(w);
}

/* Drops the older half of the samples, again and again, until a quarter of the tree is free. */
static void free_stacks(struct cpu_window *w)
{
	sweep_stacks(w);
	while (!ring_is_empty(w->ring) && stacks_used(w->stacks) > w->max_nodes / 4 * 3) {
		ring_drop_half(w->ring);
		sweep_stacks(w);
	}
}

/* ---- records ---- */

/* The frames of a call chain, innermost first. A return address is that of the instruction after
 * the call, which may belong to the next function; the address minus one always belongs to the caller. */
static size_t frames_of(struct cpu_window *w, const struct perf_record *rec, struct frame *out)
{
	uint64_t context = PERF_CONTEXT_USER;
	bool innermost = true;
	size_t n = 0;

	for (uint64_t i = 0; i < rec->n_ips && n < CPU_FRAMES_MAX; i++) {
		uint64_t ip = perf_record_ip(rec, i);

		if (ip >= (uint64_t)PERF_CONTEXT_MAX) {
			context = ip;
			innermost = true;
			continue;
		}
		ip -= !innermost && ip;
		innermost = false;
		if (context == (uint64_t)PERF_CONTEXT_KERNEL)
			out[n] = (struct frame){ .image = IMAGE_KERNEL, .offset = ip };
		else if (context == (uint64_t)PERF_CONTEXT_USER)
			out[n] = processes_frame(w->processes, rec->pid, ip);
		else
			continue;
		/* A stack walk that failed gives wrong addresses: unknown frames in a row become one. */
		if (n && out[n].image == IMAGE_UNKNOWN && out[n - 1].image == IMAGE_UNKNOWN)
			continue;
		n++;
	}
	return n;
}

static uint32_t push_all(struct cpu_window *w, const struct frame *frames, size_t n)
{
	uint32_t node = STACK_EMPTY;

	while (n && node != STACK_FULL)
		node = stacks_push(w->stacks, node, &frames[--n]);
	return node;
}

static void apply_sample(struct cpu_window *w, const struct perf_record *rec)
{
	struct sample_bytes sample = { .tid = rec->tid };
	struct frame frames[CPU_FRAMES_MAX];
	uint32_t node;
	size_t n;

	if (!rec->tid || rec->pid == UINT32_MAX || rec->tid == UINT32_MAX)
		return; /* the idle task, or a task that has ended */
	if (images_full(w->images) && rec->time_ns - w->images_full_raw_ns > SWEEP_EVERY_NS) {
		w->images_full_raw_ns = rec->time_ns;
		free_stacks(w);
	}
	threads_note(w->threads, rec->pid, rec->tid, rec->time_ns);
	n = frames_of(w, rec, frames);
	node = push_all(w, frames, n);
	if (node == STACK_FULL) {
		free_stacks(w);
		n = frames_of(w, rec, frames);
		node = push_all(w, frames, n);
	}
	sample.node = node == STACK_FULL ? 0 : node;
	ring_add(w->ring, rec->time_ns, &sample, sizeof(sample));
	w->n++;
}

static void apply(struct cpu_window *w, const struct perf_record *rec)
{
	if (rec->kind == PERF_KIND_SAMPLE)
		apply_sample(w, rec);
	threads_apply(w->threads, rec);
	processes_apply(w->processes, rec);
}

static int64_t *fed_until(struct cpu_window *w, size_t cpu)
{
	if (cpu >= w->n_cpus) {
		w->fed_raw_ns = xrealloc(w->fed_raw_ns, (cpu + 1) * sizeof(*w->fed_raw_ns));
		memset(w->fed_raw_ns + w->n_cpus, 0,
		       (cpu + 1 - w->n_cpus) * sizeof(*w->fed_raw_ns));
		w->n_cpus = cpu + 1;
	}
	return &w->fed_raw_ns[cpu];
}

/* The kernel reports dropped records together with the next one that it keeps. */
static void note_record(struct cpu_window *w, size_t cpu, const struct perf_record *rec)
{
	int64_t *until = fed_until(w, cpu);

	if (rec->kind == PERF_KIND_LOST)
		ring_add_gap(w->ring, *until ? *until : rec->time_ns, rec->time_ns, rec->count);
	*until = rec->time_ns;
}

void cpu_window_feed(struct cpu_window *w, size_t cpu, const void *bytes, size_t len)
{
	size_t base = w->fed.len;
	struct perf_record rec;
	struct reader r;

	buf_add(&w->fed, bytes, len);
	r = reader_of(w->fed.data + base, len);
	for (;;) {
		const uint8_t *start = r.p;

		if (!perf_decode(&r, PERF_LAYOUT_WITH_IDS, &rec))
			break;
		note_record(w, cpu, &rec);
		if (rec.kind == PERF_KIND_OTHER || rec.kind == PERF_KIND_THROTTLE ||
		    rec.kind == PERF_KIND_LOST)
			continue;
		if (w->n_pending == w->pending_cap) {
			w->pending_cap = w->pending_cap ? 2 * w->pending_cap : 256;
			w->pending = xrealloc(w->pending, w->pending_cap * sizeof(*w->pending));
		}
		w->pending[w->n_pending++] = (struct pending){
			.raw_ns = rec.time_ns,
			.at = (size_t)(start - w->fed.data),
			.len = (size_t)(r.p - start),
		};
	}
}

static int by_time(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	if (x->raw_ns != y->raw_ns)
		return x->raw_ns < y->raw_ns ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* Keeps only the records that were not applied. */
static void keep_pending(struct cpu_window *w, size_t from)
{
	struct buf rest = BUF_INIT;

	for (size_t i = from; i < w->n_pending; i++) {
		struct pending p = w->pending[i];

		buf_add(&rest, w->fed.data + p.at, p.len);
		p.at = rest.len - p.len;
		w->pending[i - from] = p;
	}
	w->n_pending -= from;
	if (w->n_pending) {
		buf_release(&w->fed);
		w->fed = rest;
	} else {
		buf_reset(&w->fed);
	}
}

void cpu_window_flush(struct cpu_window *w, int64_t until_raw_ns)
{
	struct perf_record rec;
	size_t i;

	if (!w->n_pending) {
		buf_reset(&w->fed);
		return;
	}
	if (w->fed.len > FED_BYTES_MAX)
		until_raw_ns = INT64_MAX;
	sort_array(w->pending, w->n_pending, sizeof(*w->pending), by_time);
	for (i = 0; i < w->n_pending && w->pending[i].raw_ns < until_raw_ns; i++) {
		struct reader r = reader_of(w->fed.data + w->pending[i].at, w->pending[i].len);

		if (perf_decode(&r, PERF_LAYOUT_WITH_IDS, &rec))
			apply(w, &rec);
	}
	if (i && w->pending[i - 1].raw_ns - w->swept_raw_ns > SWEEP_EVERY_NS) {
		w->swept_raw_ns = w->pending[i - 1].raw_ns;
		threads_sweep(w->threads, ring_begin(w->ring));
	}
	keep_pending(w, i);
}
