/* SPDX-License-Identifier: Apache-2.0 */
/* From the kernel's records of context switches to the times in which threads ran or waited. */
#include "agent/tracer/sched/intervals.h"

#include <stdio.h>

#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/perf_bytes.h"

#define OUT	  PERF_RECORD_MISC_SWITCH_OUT
#define PREEMPTED (PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT)
#define IN	  0
#define WAKE	  UINT16_MAX /* no switch: a wake-up of `tid` */

struct row {
	uint64_t time;
	uint16_t misc;
	uint32_t cpu, tid, other;
};

static bool add_record(void *arg, const struct ring_record *record)
{
	intervals_add(arg, record->raw_ns, record->data);
	return true;
}

/* In the short layout: the report of the thread that leaves has the other one's id alone. */
static void feed_report(struct switches *s, uint64_t time, uint16_t misc, uint32_t cpu,
			uint32_t other)
{
	struct buf b = BUF_INIT;

	perf_switch(&b, time, misc, false, 0, other);
	switches_feed(s, cpu, b.data, b.len);
	buf_release(&b);
}

static void feed_wakeup(struct switches *s, const struct row *row)
{
	struct buf b = BUF_INIT;

	perf_raw_sample(&b, row->time, 24, row->tid);
	switches_feed(s, row->cpu, b.data, b.len);
	buf_release(&b);
}

/* Switches as the kernel reports them: each twice. */
static void feed(struct switches *s, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (rows[i].misc == WAKE)
			feed_wakeup(s, &rows[i]);
		if (rows[i].misc == WAKE || !(rows[i].misc & OUT))
			continue;
		feed_report(s, rows[i].time, rows[i].misc, rows[i].cpu, rows[i].other);
		feed_report(s, rows[i].time, IN, rows[i].cpu, rows[i].tid);
	}
}

static void feed_with_ids(struct switches *s, const struct row *rows, size_t n)
{
	struct buf b = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		buf_reset(&b);
		perf_switch(&b, rows[i].time, rows[i].misc, true, rows[i].tid, rows[i].other);
		switches_feed(s, rows[i].cpu, b.data, b.len);
	}
	buf_release(&b);
}

/* "11 100-200 cpu 0;12 150-200 runnable": of the window 100 to 1000. */
static void check(struct switches *s, int64_t min_ns, uint64_t lost, const char *want)
{
	struct intervals *in = intervals_new(&(struct intervals_conf){
		.t0_ns = 100, .t1_ns = 1000, .min_ns = min_ns, .max = 100 });
	struct ring_cut *cut = ring_cut_new(switches_ring(s), 0, 2000);
	char text[1024] = "";
	const struct interval *v;
	size_t n, len = 0;

	CHECK_EQ(ring_cut_each(cut, add_record, in), 0);
	v = intervals_finish(in, &n);
	for (size_t i = 0; i < n; i++) {
		char where[16] = "runnable";

		if (!v[i].runnable)
			snprintf(where, sizeof(where), "cpu %u", v[i].cpu);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %lld-%lld %s;",
					v[i].tid, (long long)v[i].start_ns, (long long)v[i].end_ns,
					where);
	}
	CHECK_STR(text, want);
	CHECK_EQ(intervals_lost(in), lost);
	intervals_free(in);
	ring_cut_free(cut);
}

static struct switches *start(bool of_cgroup)
{
	return switches_new(&(struct switches_conf){ .of_cgroup = of_cgroup });
}

/* 11 is preempted by 12, which then sleeps; the kernel reports each switch twice. */
static void test_states(void)
{
	const struct row rows[] = {
		{ 50, OUT, 0, 0, 11 },	{ 50, IN, 0, 11, 0 },	 { 200, PREEMPTED, 0, 11, 12 },
		{ 200, IN, 0, 12, 11 }, { 300, OUT, 0, 12, 11 }, { 300, IN, 0, 11, 12 },
		{ 400, OUT, 0, 11, 0 }, { 400, IN, 0, 0, 11 },
	};
	struct switches *s = start(false);

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0, "11 100-200 cpu 0;11 200-300 runnable;11 300-400 cpu 0;12 200-300 cpu 0;");
	check(s, 101, 0, "");
	switches_free(s);
}

/* It waits on one CPU and goes on on another; both are open at T1. */
static void test_migration(void)
{
	const struct row rows[] = {
		{ 150, PREEMPTED, 3, 11, 12 },
		{ 700, OUT, 4095, 0, 11 },
	};
	struct switches *s = start(false);

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0,
	      "11 100-150 cpu 3;11 150-700 runnable;11 700-1000 cpu 4095;12 150-1000 cpu 3;");
	switches_free(s);
}

/* A CPU's ring is read after those of other CPUs, whose records are newer. */
static void test_rings_in_turn(void)
{
	const struct row rows[] = {
		{ 400, OUT, 0, 0, 11 },
		{ 900, OUT, 0, 11, 0 },
		{ 150, PREEMPTED, 1, 11, 12 },
		{ 500, OUT, 1, 12, 0 },
	};
	struct switches *s = start(false);

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0, "11 100-150 cpu 1;11 150-400 runnable;11 400-900 cpu 0;12 150-500 cpu 1;");
	switches_free(s);
}

/* No switch in the window: a note tells who runs, or the first switch after it. */
static void test_alone(void)
{
	const struct row before[] = { { 40, OUT, 0, 0, 11 }, { 40, OUT, 1, 0, 21 } };
	const struct row after[] = { { 1500, OUT, 1, 21, 0 } };
	struct switches *s = start(false);

	feed(s, before, ARRAY_SIZE(before));
	check(s, 0, 0, "11 100-1000 cpu 0;21 100-1000 cpu 1;");
	feed(s, after, ARRAY_SIZE(after));
	switches_flush(s, 500);
	check(s, 0, 0, "11 100-1000 cpu 0;21 100-1000 cpu 1;");
	switches_free(s);
}

/* Records are missing: nothing is said about the time in between. */
static void test_missing(void)
{
	const struct row rows[] = {
		{ 150, OUT, 0, 11, 12 },
		{ 400, OUT, 0, 13, 14 },
		{ 500, OUT, 0, 14, 0 },
	};
	struct switches *s = start(false);

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 1, "11 100-150 cpu 0;14 400-500 cpu 0;");
	switches_free(s);
}

/* What the kernel dropped is missing since the record of this CPU before. */
static void test_dropped(void)
{
	const struct row rows[] = { { 150, OUT, 0, 11, 12 }, { 400, OUT, 1, 21, 22 } };
	struct switches *s = start(false);
	struct buf b = BUF_INIT;

	feed(s, rows, ARRAY_SIZE(rows));
	perf_lost(&b, 900, 7);
	switches_feed(s, 0, b.data, b.len);
	buf_release(&b);
	CHECK_EQ(ring_lost(switches_ring(s), 0, 150), 0);
	CHECK_EQ(ring_lost(switches_ring(s), 200, 300), 7);
	CHECK_EQ(ring_lost(switches_ring(s), 901, 2000), 0);
	switches_free(s);
}

/* While nothing is recorded nothing is shown. */
static void test_pause(void)
{
	const struct row before[] = { { 50, OUT, 0, 0, 11 }, { 200, PREEMPTED, 0, 11, 12 } };
	const struct row after[] = { { 800, OUT, 0, 13, 14 }, { 900, OUT, 0, 14, 0 } };
	struct switches *s = start(false);

	feed(s, before, ARRAY_SIZE(before));
	switches_pause(s, 300);
	switches_flush(s, 500);
	switches_pause(s, 700);
	feed(s, after, ARRAY_SIZE(after));
	check(s, 0, 0, "11 100-200 cpu 0;11 200-300 runnable;12 200-300 cpu 0;14 800-900 cpu 0;");
	switches_free(s);
}

/* A window that begins in a pause does not know what ran then. */
static void test_begin_in_pause(void)
{
	const struct row before[] = { { 40, OUT, 0, 0, 11 } };
	const struct row after[] = { { 800, OUT, 0, 13, 14 }, { 900, OUT, 0, 14, 0 } };
	struct switches *s = start(false);

	feed(s, before, ARRAY_SIZE(before));
	switches_pause(s, 50);
	switches_pause(s, 700);
	feed(s, after, ARRAY_SIZE(after));
	check(s, 0, 0, "14 800-900 cpu 0;");
	switches_free(s);
}

/* A thread that waits when the window begins was preempted before. */
static void test_waiting_at_t0(void)
{
	const struct row rows[] = {
		{ 20, OUT, 0, 0, 11 },	       { 30, PREEMPTED, 0, 11, 12 },
		{ 40, PREEMPTED, 0, 12, 13 },  { 50, PREEMPTED, 0, 13, 12 },
		{ 150, PREEMPTED, 0, 12, 11 }, { 300, OUT, 0, 11, 0 },
	};
	struct switches *s = start(false);

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0,
	      "11 100-150 runnable;11 150-300 cpu 0;12 100-150 cpu 0;12 150-1000 runnable;"
	      "13 100-1000 runnable;");
	switches_free(s);
}

/* Before the window, too, the CPUs' rings are read one after the other. */
static void test_before_in_turn(void)
{
	const struct row rows[] = {
		{ 80, OUT, 0, 0, 11 },	      { 150, OUT, 0, 11, 0 },  { 60, PREEMPTED, 1, 11, 12 },
		{ 90, PREEMPTED, 1, 12, 13 }, { 200, OUT, 1, 13, 12 },
	};
	struct switches *s = start(false);

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0, "11 100-150 cpu 0;12 100-200 runnable;12 200-1000 cpu 1;13 100-200 cpu 1;");
	switches_free(s);
}

/* 11 waits since it was woken up; 12 has run since, and sleeps; what 13 waited for is not known after the pause. */
static void test_woken_before(void)
{
	const struct row rows[] = {
		{ 30, WAKE, 1, 12, 0 }, { 40, OUT, 0, 0, 12 },	{ 50, OUT, 0, 12, 0 },
		{ 60, WAKE, 1, 11, 0 }, { 150, OUT, 0, 0, 11 },
	};
	struct switches *s = switches_new(&(struct switches_conf){ .woken_at = 24 });

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0, "11 100-150 runnable;11 150-1000 cpu 0;");
	switches_free(s);
	s = start(false);
	feed(s, &(const struct row){ 20, PREEMPTED, 0, 13, 12 }, 1);
	switches_pause(s, 30);
	switches_pause(s, 40);
	feed(s, &(const struct row){ 150, OUT, 0, 0, 11 }, 1);
	check(s, 0, 0, "11 150-1000 cpu 0;");
	switches_free(s);
}

/* A thread that sleeps is runnable from its wake-up until it runs; one that runs, or waits already, is not woken up. */
static void test_wakeups(void)
{
	const struct row rows[] = {
		{ 120, WAKE, 1, 11, 0 }, { 150, OUT, 0, 0, 11 },  { 200, OUT, 0, 11, 0 },
		{ 300, WAKE, 0, 11, 0 }, { 340, OUT, 0, 0, 11 },  { 350, WAKE, 1, 11, 0 },
		{ 400, OUT, 0, 11, 0 },	 { 500, OUT, 0, 0, 11 },  { 600, PREEMPTED, 0, 11, 12 },
		{ 650, WAKE, 1, 11, 0 }, { 700, OUT, 0, 12, 11 }, { 800, WAKE, 1, 11, 0 },
		{ 900, WAKE, 1, 13, 0 }, { 1200, OUT, 1, 0, 13 },
	};
	struct switches *s = switches_new(&(struct switches_conf){ .woken_at = 24 });

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0,
	      "11 120-150 runnable;11 150-200 cpu 0;11 300-340 runnable;11 340-400 cpu 0;"
	      "11 500-600 cpu 0;11 600-700 runnable;11 700-1000 cpu 0;"
	      "12 600-700 cpu 0;13 900-1000 runnable;");
	switches_free(s);
	s = start(false); /* without them samples mean nothing */
	feed(s, rows, 3);
	check(s, 0, 0, "11 150-200 cpu 0;");
	switches_free(s);
}

/* Of a cgroup only its own threads are known: 11 and 12. */
static void test_cgroup(void)
{
	const struct row rows[] = {
		{ 150, IN, 0, 11, 900 },	{ 200, OUT, 0, 11, 12 }, { 200, IN, 0, 12, 11 },
		{ 300, PREEMPTED, 0, 12, 901 }, { 400, IN, 0, 12, 902 }, { 450, OUT, 0, 12, 903 },
	};
	struct switches *s = start(true);

	feed_with_ids(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0, "11 150-200 cpu 0;12 200-300 cpu 0;12 300-400 runnable;12 400-450 cpu 0;");
	switches_free(s);
}

/* One of the two reports of a switch is missing. */
static void test_half_a_switch(void)
{
	struct switches *s = start(false);

	feed(s, (const struct row[]){ { 50, OUT, 0, 0, 11 } }, 1);
	feed_report(s, 200, OUT, 0, 12);
	switches_flush(s, 250); /* 11 has left */
	feed_report(s, 300, OUT, 0, 13); /* 12 ran until now, as the last report says */
	feed_report(s, 300, IN, 0, 12);
	feed_report(s, 400, IN, 0, 13); /* and 13; what came is not known */
	feed_report(s, 500, OUT, 0, 0);
	feed_report(s, 500, IN, 0, 14);
	check(s, 0, 0, "11 100-200 cpu 0;12 200-300 cpu 0;13 300-400 cpu 0;");
	switches_free(s);
}

/* 13 is a thread of the kernel whose own reports are not there: the next report tells that it ran, and the one after
 * that who ran then. */
static void test_unreported(void)
{
	const struct row before = { 150, OUT, 0, 0, 11 }, after = { 600, OUT, 0, 12, 14 };
	struct switches *s = start(false);

	feed(s, &before, 1);
	feed_report(s, 300, PREEMPTED, 0, 13);
	feed_report(s, 400, IN, 0, 13);
	feed(s, &after, 1);
	check(s, 0, 0,
	      "11 150-300 cpu 0;11 300-1000 runnable;12 400-600 cpu 0;13 300-400 cpu 0;14 600-1000 "
	      "cpu 0;");
	switches_free(s);
}

/* The CPU is idle after such a thread: nothing is missing. */
static void test_unreported_before_idle(void)
{
	const struct row before = { 150, OUT, 0, 0, 11 }, after = { 600, OUT, 0, 0, 14 };
	struct switches *s = start(false);

	feed(s, &before, 1);
	feed_report(s, 300, OUT, 0, 13);
	feed_report(s, 400, IN, 0, 13);
	feed(s, &after, 1);
	check(s, 0, 0, "11 150-300 cpu 0;13 300-400 cpu 0;14 600-1000 cpu 0;");
	CHECK_EQ(ring_lost(switches_ring(s), 0, 2000), 0);
	switches_free(s);
}

/* The window is cut before the thread that came is known; then it leaves for a thread without reports, too. */
static void test_unreported_at_flush(void)
{
	struct switches *s = start(false);

	feed(s, &(const struct row){ 150, OUT, 0, 0, 11 }, 1);
	feed_report(s, 300, OUT, 0, 13);
	feed_report(s, 400, IN, 0, 13);
	switches_flush(s, 500);
	check(s, 0, 0, "11 150-300 cpu 0;13 300-400 cpu 0;");
	feed_report(s, 600, OUT, 0, 13);
	feed_report(s, 700, IN, 0, 13);
	feed_report(s, 750, OUT, 0, 13);
	feed_report(s, 800, IN, 0, 13);
	CHECK_EQ(ring_lost(switches_ring(s), 600, 2000), 1);
	switches_free(s);
}

/* The kernel lost records: nothing is said of the time until the next switch. */
static void test_lost(void)
{
	struct switches *s = start(false);
	struct buf b = BUF_INIT;

	feed(s, (const struct row[]){ { 50, OUT, 0, 0, 11 }, { 200, OUT, 0, 11, 12 } }, 2);
	perf_lost_short(&b, 400, 5);
	switches_feed(s, 0, b.data, b.len);
	switches_flush(s, 450);
	feed(s, (const struct row[]){ { 500, OUT, 0, 15, 16 } }, 1);
	check(s, 0, 1, "11 100-200 cpu 0;16 500-1000 cpu 0;");
	CHECK_EQ(ring_lost(switches_ring(s), 0, 1000), 5);
	buf_release(&b);
	switches_free(s);
}

/* Ids that Linux does not have: a thread that is gone has -1. */
static void test_odd_ids(void)
{
	const struct row rows[] = {
		{ 150, OUT, 0, 0, 11 },		 { 200, OUT, 0, UINT32_MAX, 12 },
		{ 300, OUT, 0, 12, UINT32_MAX }, { 350, OUT, UINT32_MAX, 12, 13 },
		{ 350, IN, 1, UINT32_MAX, 13 },
	};
	struct switches *s = start(false);

	feed(s, rows, ARRAY_SIZE(rows));
	check(s, 0, 0, "11 150-200 cpu 0;12 200-300 cpu 0;");
	switches_free(s);
}

static void test_limit(void)
{
	struct intervals *in = intervals_new(
		&(struct intervals_conf){ .t0_ns = 0, .t1_ns = 1000, .max = 2 });
	size_t n;

	for (int64_t t = 1; t <= 10; t++)
		intervals_add(in, t,
			      &(struct cpu_switch){ .from = (unsigned int)t + 5,
						    .to = (unsigned int)t + 6 });
	intervals_finish(in, &n);
	CHECK_EQ(n, 2);
	CHECK_EQ(intervals_lost(in), 9); /* the last thread, open at T1, too */
	intervals_free(in);
}

int main(void)
{
	test_states();
	test_migration();
	test_rings_in_turn();
	test_alone();
	test_missing();
	test_dropped();
	test_waiting_at_t0();
	test_before_in_turn();
	test_woken_before();
	test_wakeups();
	test_pause();
	test_begin_in_pause();
	test_cgroup();
	test_half_a_switch();
	test_unreported();
	test_unreported_before_idle();
	test_unreported_at_flush();
	test_lost();
	test_odd_ids();
	test_limit();
	return 0;
}
