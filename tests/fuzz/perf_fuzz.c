/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes as records of a perf ring, for the samples' window, so small that it overflows all the time, and for the
 * ring of switches. */
#include "agent/tracer/cpu/window.h"
#include "agent/tracer/sched/intervals.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool add_record(void *arg, const struct ring_record *record)
{
	intervals_add(arg, record->raw_ns, record->data);
	return true;
}

static void check_intervals(const struct ring *ring)
{
	struct intervals *in = intervals_new(
		&(struct intervals_conf){ .t0_ns = 100, .t1_ns = 1 << 20, .max = 64 });
	struct ring_cut *cut = ring_cut_new((struct ring *)ring, INT64_MIN, INT64_MAX);
	const struct interval *v;
	size_t n;

	ring_cut_each(cut, add_record, in);
	v = intervals_finish(in, &n);
	for (size_t i = 0; i < n; i++) {
		if (v[i].end_ns <= v[i].start_ns || v[i].end_ns > 1 << 20 || !v[i].tid)
			abort();
	}
	intervals_free(in);
	ring_cut_free(cut);
}

static void feed_switches(const uint8_t *data, size_t size, bool of_cgroup)
{
	struct switches *s = switches_new(
		&(struct switches_conf){ .of_cgroup = of_cgroup, .woken_at = size % 40 });

	switches_feed(s, size % 5, data, size);
	switches_flush(s, 1 << 16);
	check_intervals(switches_ring(s));
	switches_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cpu_window *w = cpu_window_new(
		&(struct cpu_window_conf){ .max_nodes = 32, .max_images = 8 });
	struct cpu_cut *cut;

	cpu_window_feed(w, 0, data, size / 2);
	cpu_window_flush(w, 1000);
	if (size)
		cpu_window_feed(w, size % 3, data + size / 2, size - size / 2);
	cpu_window_flush(w, INT64_MAX);
	cpu_questions_free(cpu_window_take_questions(w));
	cut = cpu_window_cut(w, 0, ring_cut_new(cpu_window_ring(w), 0, INT64_MAX));
	cpu_cut_load(cut);
	cpu_cut_free(cut);
	cpu_window_free(w);
	feed_switches(data, size, size & 1);
	return 0;
}
