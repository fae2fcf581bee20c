/* SPDX-License-Identifier: Apache-2.0 */
/* From records of the kernel to the plane, without the kernel. */
#include "agent/tracer/cpu/window.h"

#include "agent/tracer/cpu/plane.h"
#include "agent/symbols/symbols.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/perf_bytes.h"
#include "tests/lib/xspace_text.h"
#include "xspace/xspace.h"

#define PERIOD (10 * NS_PER_MS)
#define USER   ((uint64_t)PERF_CONTEXT_USER)
#define KERNEL ((uint64_t)PERF_CONTEXT_KERNEL)

/* Two functions' worth of code in a file that does not exist: names are file and offset. */
#define CODE 0x10000
#define LEN  0x10000

static struct cpu_window *window(size_t nodes)
{
	return cpu_window_new(&(struct cpu_window_conf){
		.ring = { .bytes = RING_BYTES_MIN }, .max_nodes = nodes, .max_images = 100 });
}

static struct cpu_cut *cut_window(const struct cpu_window *w, int64_t t0, int64_t t1)
{
	struct cpu_cut *cut = cpu_window_cut(w, t0, ring_cut_new(cpu_window_ring(w), t0, t1));

	cut->t0_raw_ns = t0;
	cut->t1_raw_ns = t1;
	CHECK_EQ(cpu_cut_load(cut), 0);
	return cut;
}

static void feed(struct cpu_window *w, struct buf *b)
{
	cpu_window_feed(w, 0, b->data, b->len);
	buf_reset(b);
}

/* ---- the plane as text ---- */

/* Window [0, to_ms): lines "comm/tid: name from-to ..." in ms. */
static void check_plane_with(const struct cpu_window *w, struct symbols *sy, int64_t to_ms,
			     const char *want)
{
	struct cpu_cut *cut = cut_window(w, 0, to_ms * NS_PER_MS);
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;
	char *text;

	cut->period_ns = PERIOD;
	symbols_begin(sy);
	cpu_plane_build(cut, sy, b);
	symbols_end(sy);
	xs_finish(b, &bytes);
	text = xspace_lines(bytes.data, bytes.len);
	CHECK_STR(text, want);
	free(text);
	buf_release(&bytes);
	xs_builder_free(b);
	cpu_cut_free(cut);
}

static void check_plane(const struct cpu_window *w, int64_t to_ms, const char *want)
{
	struct symbols *sy = symbols_new(NULL);

	check_plane_with(w, sy, to_ms, want);
	symbols_free(sy);
}

static void exec_process(struct buf *b, uint32_t pid, const char *comm)
{
	perf_comm(b, 1, pid, pid, comm, true);
	perf_mmap(b, 2, pid, CODE, LEN, 0, "/nowhere/prog");
}

/* A stack of up to two frames: `leaf` called from `root`. */
static void sample(struct buf *b, int64_t ms, uint32_t pid, uint64_t leaf, uint64_t root)
{
	const uint64_t ips[] = { USER, CODE + leaf, CODE + root + 1 };

	perf_sample(b, (uint64_t)(ms * NS_PER_MS), pid, pid, ips, root ? 3 : 2);
}

/* ---- tests ---- */

static void equal_prefixes_become_one_event(void)
{
	struct cpu_window *w = window(1000);
	struct buf b = BUF_INIT;

	exec_process(&b, 7, "prog");
	sample(&b, 10, 7, 0x20, 0x10);
	sample(&b, 20, 7, 0x20, 0x10);
	sample(&b, 30, 7, 0x30, 0x10);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	check_plane(w, 1000, "prog/7: [prog+0x10] 10-40 [prog] 10-40\n");
	buf_release(&b);
	cpu_window_free(w);
}

static void gaps_end_events_and_the_window_clips_them(void)
{
	struct cpu_window *w = window(1000);
	struct buf b = BUF_INIT;

	exec_process(&b, 7, "prog");
	sample(&b, 10, 7, 0x10, 0);
	sample(&b, 35, 7, 0x10, 0); /* two and a half periods: still the same */
	sample(&b, 61, 7, 0x10, 0); /* more: another one */
	sample(&b, 95, 7, 0x10, 0);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	check_plane(w, 100, "prog/7: [prog] 10-45 [prog] 61-71 [prog] 95-100\n");
	check_plane(w, 90, "prog/7: [prog] 10-45 [prog] 61-71\n");
	buf_release(&b);
	cpu_window_free(w);
}

/* Rings are read one after the other: what one tells late may come before what another told first. */
static void rings_are_put_in_order_of_time(void)
{
	struct cpu_window *w = window(1000);
	struct buf b = BUF_INIT;

	sample(&b, 10, 7, 0x10, 0);
	feed(w, &b);
	exec_process(&b, 7, "late");
	sample(&b, 50, 7, 0x10, 0); /* after the flush's limit: waits */
	feed(w, &b);
	cpu_window_flush(w, 40 * NS_PER_MS);
	CHECK_EQ(cpu_window_samples(w), 1);
	check_plane(w, 100, "late/7: [prog] 10-20\n");
	cpu_window_flush(w, INT64_MAX);
	CHECK_EQ(cpu_window_samples(w), 2);
	buf_release(&b);
	cpu_window_free(w);
}

static void processes_keep_their_own_code(void)
{
	struct cpu_window *w = window(1000);
	struct buf b = BUF_INIT;

	exec_process(&b, 7, "prog");
	perf_task(&b, PERF_RECORD_FORK, 3, 8, 7, 8, 7);
	perf_comm(&b, 4, 8, 8, "child", true); /* exec: nothing is mapped */
	perf_mmap(&b, 5, 8, CODE, LEN, 0x1000, "/nowhere/other");
	perf_task(&b, PERF_RECORD_FORK, 6, 9, 7, 9, 7); /* no exec: as its parent */
	perf_mmap(&b, 7, 9, CODE + 0x100, 0x100, 0, "/nowhere/plugin");
	sample(&b, 10, 7, 0x110, 0);
	sample(&b, 10, 8, 0x110, 0);
	sample(&b, 10, 9, 0x110, 0);
	sample(&b, 20, 9, 0x10, 0);
	sample(&b, 30, 9, 0x210, 0);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	check_plane(w, 100,
		    "prog/7: [prog] 10-20\n"
		    "child/8: [other] 10-20\n"
		    "prog/9: [plugin] 10-20 [prog] 20-40\n");
	buf_release(&b);
	cpu_window_free(w);
}

static void shared_code_is_one_tree(void)
{
	struct cpu_window *w = window(1000);
	struct buf b = BUF_INIT;

	for (uint32_t pid = 10; pid < 74; pid++) {
		exec_process(&b, pid, "rank");
		sample(&b, 10, pid, 0x20, 0x10);
	}
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	CHECK_EQ(cpu_window_samples(w), 64);
	CHECK_EQ(cpu_window_nodes(w), 1 + 2);
	buf_release(&b);
	cpu_window_free(w);
}

static void kernel_and_unknown_frames_are_told_apart(void)
{
	const uint64_t ips[] = { KERNEL, 0xffffffff81000010, USER, CODE + 0x10, 0x1, 0x2, 0x3 };
	struct cpu_cut *cut;
	struct cpu_window *w = window(1000);
	struct buf b = BUF_INIT;

	exec_process(&b, 7, "prog");
	perf_sample(&b, 10, 7, 7, ips, ARRAY_SIZE(ips));
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	cut = cut_window(w, 0, 100);
	CHECK_EQ(cut->n_samples, 1);
	CHECK_EQ(cut->n_nodes, 1 + 3); /* three unknown frames are one */
	CHECK_EQ(cut->images[cut->nodes[1].image].kind, IMAGE_KIND_UNKNOWN);
	CHECK_STR(cut->images[cut->nodes[2].image].path, "/nowhere/prog");
	CHECK_EQ(cut->images[cut->nodes[3].image].kind, IMAGE_KIND_KERNEL);
	CHECK_EQ(cut->nodes[3].offset, 0xffffffff81000010);
	cpu_cut_free(cut);
	buf_release(&b);
	cpu_window_free(w);
}

/* Between the record that the kernel kept before and the one after, of the same CPU. */
static void losses_are_counted_where_they_happened(void)
{
	struct cpu_window *w = window(1000);
	struct buf b = BUF_INIT;

	perf_lost(&b, 100, 5); /* the first record */
	perf_comm(&b, 150, 10, 10, "a", false);
	feed(w, &b);
	perf_lost(&b, 200, 7);
	feed(w, &b);
	perf_lost(&b, 300, 9);
	cpu_window_feed(w, 1, b.data, b.len);
	cpu_window_flush(w, INT64_MAX);
	CHECK_EQ(ring_lost(cpu_window_ring(w), 0, 100), 0);
	CHECK_EQ(ring_lost(cpu_window_ring(w), 0, 101), 5);
	CHECK_EQ(ring_lost(cpu_window_ring(w), 101, 150), 0);
	CHECK_EQ(ring_lost(cpu_window_ring(w), 101, 151), 7);
	CHECK_EQ(ring_lost(cpu_window_ring(w), 170, 180), 7);
	CHECK_EQ(ring_lost(cpu_window_ring(w), 201, 300), 0);
	CHECK_EQ(ring_lost(cpu_window_ring(w), 201, 1000), 9);
	buf_release(&b);
	cpu_window_free(w);
}

static void newest_samples_win_the_ring(void)
{
	struct cpu_window *w = window(100000);
	struct buf b = BUF_INIT;
	struct cpu_cut *cut;

	exec_process(&b, 7, "prog");
	for (int64_t i = 1; i <= 2500; i++)
		sample(&b, i, 7, 0x10 + (uint64_t)i % 5, 0);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	cut = cut_window(w, 0, INT64_MAX);
	CHECK(cut->n_samples > 900 && cut->n_samples <= RING_BYTES_MIN / 16);
	CHECK_EQ(ring_begin(cpu_window_ring(w)), (2500 - (int64_t)cut->n_samples) * NS_PER_MS + 1);
	CHECK_EQ(cut->n_threads, 1);
	CHECK_EQ(cut->n_nodes, 1 + 5);
	cpu_cut_free(cut);
	buf_release(&b);
	cpu_window_free(w);
}

/* Every sample another stack: the tree overflows many times over and is rebuilt from what is left. */
static void full_tree_drops_the_oldest(void)
{
	struct cpu_window *w = window(200);
	struct buf b = BUF_INIT;
	struct cpu_cut *cut;

	exec_process(&b, 7, "prog");
	for (int64_t i = 1; i <= 5000; i++)
		sample(&b, i, 7, (uint64_t)i, 0x8000 + (uint64_t)i);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	CHECK(cpu_window_nodes(w) <= 200);
	cut = cut_window(w, 0, INT64_MAX);
	CHECK(cut->n_samples >= 20);
	CHECK_EQ(cut->samples[cut->n_samples - 1].raw_ns, 5000 * NS_PER_MS);
	for (size_t i = 0; i < cut->n_samples; i++) {
		const struct cpu_sample *s = &cut->samples[i];

		CHECK(s->node && s->node < cut->n_nodes);
		CHECK_EQ(cut->nodes[s->node].offset, s->raw_ns / NS_PER_MS);
		CHECK(cut->nodes[s->node].parent < s->node);
	}
	CHECK_EQ(ring_begin(cpu_window_ring(w)), cut->samples[0].raw_ns - NS_PER_MS + 1);
	cpu_cut_free(cut);
	buf_release(&b);
	cpu_window_free(w);
}

static bool reserve_bytes(void *arg, uint64_t bytes)
{
	*(uint64_t *)arg += bytes;
	return true;
}

/* Samples in the ring's file keep their stacks while the tree overflows with others. */
static void long_windows_keep_their_stacks(void)
{
	struct cpu_window *w = window(4000);
	struct buf b = BUF_INIT;
	struct cpu_cut *cut;
	uint64_t taken = 0;

	exec_process(&b, 7, "prog");
	for (int64_t i = 1; i <= 30000; i++)
		sample(&b, i, 7, (uint64_t)i, 0);
	feed(w, &b);
	cpu_window_flush(w, 30000 * NS_PER_MS);
	ring_add_hold(cpu_window_ring(w), &(struct ring_hold){ .owner = w,
							       .from_raw_ns = 30000 * NS_PER_MS,
							       .dir = "/tmp",
							       .reserve_bytes = reserve_bytes,
							       .arg = &taken });
	for (int64_t i = 30001; i <= 34000; i++)
		sample(&b, i, 7, (uint64_t)i % 50, 0x8000);
	for (int64_t i = 34001; i <= 36500; i++)
		sample(&b, i, 7, (uint64_t)i, 0);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	CHECK(taken > 5000 * 16);
	CHECK(ring_bytes(cpu_window_ring(w)) <= RING_BYTES_MIN);
	cut = cut_window(w, 30000 * NS_PER_MS + 1, INT64_MAX);
	CHECK_EQ(cut->n_samples, 6500);
	CHECK_EQ(cut->n_nodes, 1 + 1 + 50 + 2500);
	for (size_t i = 0; i < cut->n_samples; i++) {
		const struct cpu_sample *s = &cut->samples[i];
		int64_t at = s->raw_ns / NS_PER_MS;

		CHECK_EQ(at, 30001 + (int64_t)i);
		CHECK_EQ(cut->nodes[s->node].offset, at <= 34000 ? at % 50 : at);
		CHECK(cut->nodes[s->node].parent < s->node);
	}
	CHECK_EQ(ring_remove_hold(cpu_window_ring(w), w), 0);
	cpu_cut_free(cut);
	buf_release(&b);
	cpu_window_free(w);
}

static struct cpu_questions *ask(struct cpu_window *w, struct symbols *sy)
{
	struct cpu_questions *q = cpu_window_take_questions(w);

	if (!q)
		return NULL;
	symbols_begin(sy);
	cpu_questions_answer(q, sy);
	symbols_end(sy);
	cpu_window_apply_answers(w, q);
	return q;
}

static void names_are_asked_for_once(void)
{
	struct symbols *sy = symbols_new(NULL);
	struct cpu_window *w = window(1000);
	struct cpu_questions *q;
	struct cpu_cut *cut;
	struct buf b = BUF_INIT;

	exec_process(&b, 7, "prog");
	sample(&b, 10, 7, 0x20, 0x10);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	q = ask(w, sy);
	CHECK(q && q->n == 2 && q->n_images == 1 && !q->n_processes && !q->n_threads);
	cpu_questions_free(q);
	CHECK(!ask(w, sy));
	cut = cut_window(w, 0, INT64_MAX);
	CHECK_EQ(cut->epoch, symbols_epoch(sy));
	CHECK_STR(symbols_text(sy, cut->nodes[2].name), "[prog+0x20]");
	cpu_cut_free(cut);

	/* A thread without a record of its start: its name and its process's mappings are queried. */
	sample(&b, 20, 999999999, 0x20, 0);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	q = ask(w, sy);
	CHECK(q && q->n == 1 && q->n_processes == 1 && q->n_threads == 1);
	CHECK(!q->processes[0].answered); /* there is no such process */
	cpu_questions_free(q);
	CHECK(!ask(w, sy));
	check_plane_with(w, sy, 100,
			 "prog/7: [prog+0x10] 10-20 [prog] 10-20\n"
			 "thread/999999999: [unknown] 20-30\n");
	buf_release(&b);
	cpu_window_free(w);
	symbols_free(sy);
}

/* What a process execs, forks and maps is in the records: /proc is read for processes older than the agent only. */
static void new_processes_are_not_read_from_proc(void)
{
	const uint32_t shell = 999999000;
	struct symbols *sy = symbols_new(NULL);
	struct cpu_window *w = window(1000);
	struct cpu_questions *q;
	struct buf b = BUF_INIT;

	for (uint32_t pid = shell + 1; pid <= shell + 100; pid++) {
		perf_task(&b, PERF_RECORD_FORK, 1, pid, shell, pid, shell);
		exec_process(&b, pid, "made");
		sample(&b, 10, pid, 0x20, 0x10);
	}
	/* One older than the agent, that ends before its question is asked. */
	sample(&b, 10, shell + 200, 0x20, 0);
	perf_task(&b, PERF_RECORD_EXIT, 20 * NS_PER_MS, shell + 200, 1, shell + 200, 1);
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	q = ask(w, sy);
	CHECK(q);
	CHECK_EQ(q->n_processes, 1);
	CHECK_EQ(q->processes[0].pid, shell);
	CHECK_EQ(q->n_threads, 0);
	cpu_questions_free(q);

	/* The shell's mappings are known from then on, so are those of what it forks. */
	for (uint32_t pid = shell + 101; pid <= shell + 110; pid++) {
		perf_task(&b, PERF_RECORD_FORK, 30 * NS_PER_MS, pid, shell, pid, shell);
		sample(&b, 40, pid, 0x20, 0);
	}
	feed(w, &b);
	cpu_window_flush(w, INT64_MAX);
	q = ask(w, sy);
	CHECK(!q || !q->n_processes);
	cpu_questions_free(q);
	buf_release(&b);
	cpu_window_free(w);
	symbols_free(sy);
}

int main(void)
{
	equal_prefixes_become_one_event();
	gaps_end_events_and_the_window_clips_them();
	rings_are_put_in_order_of_time();
	processes_keep_their_own_code();
	shared_code_is_one_tree();
	kernel_and_unknown_frames_are_told_apart();
	losses_are_counted_where_they_happened();
	newest_samples_win_the_ring();
	full_tree_drops_the_oldest();
	long_windows_keep_their_stacks();
	names_are_asked_for_once();
	new_processes_are_not_read_from_proc();
	return 0;
}
