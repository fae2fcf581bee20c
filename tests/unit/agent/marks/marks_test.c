/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/marks/marks.h"

#include "base/clean_text.h"
#include "agent/tracer/build_job.h"
#include "agent/tracers.h"
#include "base/loop.h"
#include "base/now.h"
#include "proto/limits.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/xspace_text.h"
#include "xspace/xspace.h"

static void add(struct marks *m, int64_t raw_ns, int32_t pid, const char *text)
{
	marks_add(m, &(struct mark){ .raw_ns = raw_ns, .pid = pid, .tid = pid + 1, .text = text });
}

static struct marks *marks(uint64_t ring_bytes)
{
	return marks_new(&(struct ring_limits){ .bytes = ring_bytes }, 0);
}

static void each(const struct marks *m, int64_t from, int64_t to,
		 bool (*fn)(void *arg, const struct ring_record *record), void *arg)
{
	struct ring_cut *cut = ring_cut_new(marks_ring(m), from, to);

	CHECK_EQ(ring_cut_each(cut, fn, arg), 0);
	ring_cut_free(cut);
}

static bool collect(void *arg, const struct ring_record *record)
{
	struct mark mark = mark_of_record(record);

	buf_addf(arg, "%s@%lld ", mark.text, (long long)mark.raw_ns);
	return true;
}

static void window_is_half_open(void)
{
	struct marks *m = marks(0);
	struct buf b = BUF_INIT;

	add(m, 30, 1, "c");
	add(m, 10, 1, "a");
	add(m, 20, 1, "b");
	each(m, 10, 30, collect, &b);
	CHECK_STR(buf_str(&b), "a@10 b@20 ");
	buf_release(&b);
	marks_free(m);
}

static bool count(void *arg, const struct ring_record *record)
{
	(void)record;
	++*(uint64_t *)arg;
	return true;
}

static void lost_marks_are_counted(void)
{
	struct marks *m = marks(1 << 20);
	char text[LIMIT_MARK_BYTES + 10];
	uint64_t n = 0;

	memset(text, 'y', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 10000; i++)
		add(m, i, 1, text);
	each(m, 0, INT64_MAX, count, &n);
	CHECK(n > 900 && n < 1100);
	CHECK_EQ(n + ring_lost(marks_ring(m), 0, INT64_MAX), 10000);
	CHECK(ring_bytes(marks_ring(m)) <= 1 << 20);
	marks_free(m);
}

static void on_done(struct tracer_run *run)
{
	*(bool *)run->done_arg = true;
}

/* In the tracer's report, with the cause. */
static void lost_marks_are_reported_in_the_result(void)
{
	struct tracer_env env = { .marks = marks(RING_BYTES_MIN) };
	bool done = false;
	struct tracer_run run = { .t1_raw_ns = 2000, .done = on_done, .done_arg = &done };
	struct tracer *t;
	struct err e;
	uint64_t kept = 0;

	CHECK_OK(loop_new(&env.loop, 1, &e), e);
	CHECK_OK(tracer_marks_ops.open(&t, &env, &e), e);
	for (int i = 0; i < 1000; i++)
		add(env.marks, i, 1, "one of a thousand marks in a ring of 16 kB");
	each(env.marks, 0, INT64_MAX, count, &kept);
	tracer_marks_ops.gather(t, &run);
	RUN_UNTIL(env.loop, done);
	CHECK(kept && kept < 1000);
	CHECK_EQ(run.lost, 1000 - kept);
	CHECK_EQ(run.result, RUN_DEGRADED);
	CHECK_STR(run.reason, "window-cut");
	CHECK(strstr(run.detail, "--ring-bytes"));
	CHECK_EQ(run.n_parts, 2); /* when they were lost, and the marks */
	for (size_t i = 0; i < run.n_parts; i++)
		buf_release(&run.parts[i].bytes);
	free(run.parts);
	tracer_marks_ops.free(t);
	loop_free(env.loop);
	marks_free(env.marks);
}

static void collect_step(void *arg, const struct step_mark *step)
{
	buf_addf(arg, "%lld@%lld/%d ", (long long)step->step, (long long)step->raw_ns, step->pid);
}

/* Also those of marks that left the ring long ago: captures are long. */
static void steps_of_a_window_are_in_order(void)
{
	struct marks *m = marks(1 << 16);
	struct buf b = BUF_INIT;

	add(m, 10, 7, "train#step_num=1#");
	add(m, 30, 8, "train#step_num=3#");
	add(m, 20, 7, "train#step_num=2#");
	add(m, 25, 7, "no step");
	for (int i = 0; i < 10000; i++)
		add(m, 40 + i, 1, "a flood of marks that are no steps");
	marks_each_step(m, 10, 30, collect_step, &b);
	CHECK_STR(buf_str(&b), "1@10/7 2@20/7 ");
	buf_reset(&b);
	marks_each_step(m, 11, 31, collect_step, &b);
	CHECK_STR(buf_str(&b), "2@20/7 3@30/8 ");
	buf_release(&b);
	marks_free(m);
}

static void foreign_text_becomes_clean(void)
{
	char out[16];

	CHECK_EQ(clean_text(out, sizeof(out), "a\tb\nc\x7f", 6), 6);
	CHECK_STR(out, "a b c ");
	clean_text(out, sizeof(out), "\xc3\xa4\xff\xc3", 4);
	CHECK_STR(out, "\xc3\xa4??");
	clean_text(out, sizeof(out), "\xed\xa0\x80\xc0\x80\xf4\x90\x80\x80", 9);
	CHECK_STR(out, "?????????");
	clean_text(out, sizeof(out), "\xf0\x9f\x98\x80", 4);
	CHECK_STR(out, "\xf0\x9f\x98\x80");
	clean_text(out, 4, "ab\xc3\xa4", 4); /* no half of a character */
	CHECK_STR(out, "ab");
	clean_text(out, sizeof(out), "ab\0cd", 5);
	CHECK_STR(out, "ab");
}

/* ---- the tracer ---- */

static void tracer_gives_a_line_per_process(void)
{
	struct tracer_env env = { .marks = marks(0) };
	bool done = false;
	struct tracer_run run = {
		.t0_raw_ns = 1000, .t1_raw_ns = 2000, .done = on_done, .done_arg = &done
	};
	struct tracer *t;
	char *text;
	struct err e;

	CHECK_OK(loop_new(&env.loop, 1, &e), e);
	CHECK_OK(tracer_marks_ops.open(&t, &env, &e), e);
	add(env.marks, 1500, 8, "step");
	add(env.marks, 999, 7, "too early");
	add(env.marks, 1000, 7, "epoch");
	add(env.marks, 1200, 7, "step");
	tracer_marks_ops.gather(t, &run);
	RUN_UNTIL(env.loop, done);
	CHECK_EQ(run.result, RUN_OK);
	CHECK_EQ(run.n_parts, 1);
	text = xspace_text(run.parts[0].bytes.data, run.parts[0].bytes.len);
	CHECK_STR(text,
		  "plane /host:CPU marks\n"
		  "marks 7 #7 @1000: epoch 0-0 {pid=7 tid=8} step 0.0002-0.0002 {pid=7 tid=8}\n"
		  "marks 8 #8 @1000: step 0.0005-0.0005 {pid=8 tid=9}\n");
	free(text);
	buf_release(&run.parts[0].bytes);
	free(run.parts);

	/* Cancelled while a worker has it, since it is not small: done is not called, nothing leaks. */
	for (int i = 0; i < 500; i++)
		add(env.marks, 1600, 7, "one of many marks, so that a worker builds the part");
	done = false;
	run.parts = NULL;
	run.n_parts = 0;
	tracer_marks_ops.gather(t, &run);
	tracer_marks_ops.cancel(t, &run);
	tracer_marks_ops.free(t);
	loop_free(env.loop);
	CHECK(!done);
	marks_free(env.marks);
}

/* A mark that the agent gets when the window is over already, stamped before its end. */
static void marks_of_the_last_moment_are_in_the_file(void)
{
	int64_t t1_raw_ns = now_raw_ns() + NS_PER_S;
	struct tracer_env env = { .marks = marks(0) };
	bool done = false;
	struct tracer_run run = { .t0_raw_ns = t1_raw_ns - NS_PER_S,
				  .t1_raw_ns = t1_raw_ns,
				  .done = on_done,
				  .done_arg = &done };
	struct tracer *t;
	char *text;
	struct err e;

	CHECK_OK(loop_new(&env.loop, 1, &e), e);
	CHECK_OK(tracer_marks_ops.open(&t, &env, &e), e);
	tracer_marks_ops.gather(t, &run);
	tracer_marks_ops.cancel(t, &run);
	tracer_marks_ops.gather(t, &run);
	RUN_UNTIL(env.loop, now_raw_ns() >= t1_raw_ns);
	CHECK(!done);
	add(env.marks, t1_raw_ns - 10 * NS_PER_US, 7, "late");
	add(env.marks, t1_raw_ns, 7, "too late");
	RUN_UNTIL(env.loop, done);
	CHECK_EQ(run.n_parts, 1);
	text = xspace_text(run.parts[0].bytes.data, run.parts[0].bytes.len);
	CHECK(strstr(text, ": late ") && !strstr(text, "too late"));
	free(text);
	buf_release(&run.parts[0].bytes);
	free(run.parts);
	tracer_marks_ops.free(t);
	loop_free(env.loop);
	marks_free(env.marks);
}

static void gather(struct tracer *t, struct tracer_env *env, struct tracer_run *run, bool *done)
{
	*done = false;
	run->done = on_done;
	run->done_arg = done;
	tracer_marks_ops.gather(t, run);
	RUN_UNTIL(env->loop, *done);
	for (size_t i = 0; i < run->n_parts; i++)
		buf_release(&run->parts[i].bytes);
	free(run->parts);
}

/* Of windows that follow one another; what the later window has itself is not lost. */
static void marks_that_come_after_their_window_count_in_the_next(void)
{
	int64_t at_ns = now_raw_ns() - 10 * NS_PER_S;
	struct tracer_env env = { .marks = marks(0) };
	struct tracer_run windows[3];
	struct tracer *t;
	struct err e;
	bool done;

	CHECK_OK(loop_new(&env.loop, 1, &e), e);
	CHECK_OK(tracer_marks_ops.open(&t, &env, &e), e);
	for (int i = 0; i < 3; i++)
		windows[i] = (struct tracer_run){ .t0_raw_ns = at_ns + i * 1000,
						  .t1_raw_ns = at_ns + (i + 1) * 1000 };
	add(env.marks, at_ns - 1, 7, "of no window");
	gather(t, &env, &windows[0], &done);
	add(env.marks, at_ns - 1, 7, "of no window");
	add(env.marks, at_ns, 7, "late");
	add(env.marks, at_ns + 999, 7, "late");
	add(env.marks, at_ns + 1000, 7, "in time");
	gather(t, &env, &windows[1], &done);
	CHECK_EQ(windows[0].lost, 0);
	CHECK_EQ(windows[1].lost, 2);
	CHECK(strstr(windows[1].detail, "2 marks of earlier windows are lost"));
	for (int i = 0; i < 100; i++)
		add(env.marks, at_ns, 7, "much too late");
	gather(t, &env, &windows[2], &done);
	CHECK_EQ(windows[2].lost, 100);
	CHECK_EQ(windows[2].result, RUN_OK);
	tracer_marks_ops.free(t);
	loop_free(env.loop);
	marks_free(env.marks);
}

static uint64_t build_nothing(void *snapshot, struct xs_builder *b)
{
	(void)snapshot;
	(void)b;
	return 7;
}

/* Marks of a long window are in a file by then: those that cannot be read back are lost. */
static void unread_marks_are_lost_ones(void)
{
	bool done = false;
	struct tracer_run run = { .lost = 3, .done = on_done, .done_arg = &done };
	struct loop *l;
	struct err e;

	CHECK_OK(loop_new(&l, 1, &e), e);
	build_job_start(
		l, &run,
		&(struct build_job){ .build = build_nothing, .free = free, .snapshot = malloc(1) });
	RUN_UNTIL(l, done);
	CHECK_EQ(run.lost, 10);
	buf_release(&run.parts[0].bytes);
	free(run.parts);
	loop_free(l);
}

int main(void)
{
	window_is_half_open();
	lost_marks_are_counted();
	lost_marks_are_reported_in_the_result();
	steps_of_a_window_are_in_order();
	foreign_text_becomes_clean();
	tracer_gives_a_line_per_process();
	marks_of_the_last_moment_are_in_the_file();
	marks_that_come_after_their_window_count_in_the_next();
	unread_marks_are_lost_ones();
	return 0;
}
