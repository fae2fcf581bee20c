/* SPDX-License-Identifier: Apache-2.0 */
/* What a run reports of its window, in virtual time. */
#include "agent/tracer/ring_run.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "xspace/xspace.h"

#define T0 (1000 * NS_PER_S)

static uint64_t room;

static bool reserve_bytes(struct tracer_run *run, uint64_t bytes)
{
	(void)run;
	if (bytes > room)
		return false;
	room -= bytes;
	return true;
}

static struct tracer_run window(int64_t t0, int64_t seconds)
{
	return (struct tracer_run){ .session = "s",
				    .t0_raw_ns = t0,
				    .t1_raw_ns = t0 + seconds * NS_PER_S,
				    .dir = "/tmp",
				    .reserve_bytes = reserve_bytes };
}

static struct ring *ring_at(int64_t begin_raw_ns)
{
	return ring_new(&(struct ring_conf){ .limits = { .bytes = RING_BYTES_MIN },
					     .record_bytes = 8,
					     .begin_raw_ns = begin_raw_ns });
}

/* A hundred records a second. */
static void feed(struct ring *r, int64_t from, int64_t to)
{
	for (int64_t at = from; at < to; at += NS_PER_S / 100)
		ring_add(r, at, &at, sizeof(at));
}

static bool count(void *arg, const struct ring_record *record)
{
	(void)record;
	++*(uint64_t *)arg;
	return true;
}

/* The spans of the part with losses. */
static struct spans {
	size_t n;
	int64_t line_ns; /* since T0 */
	int64_t begin_ns, end_ns; /* of the last one, since T0 */
	uint64_t lost; /* by all */
} losses;

static int on_plane(void *arg, const struct xs_plane *p)
{
	(void)arg;
	CHECK_STR(p->name, "/host:CPU lost records");
	return 0;
}

static int on_line(void *arg, const struct xs_line *l)
{
	struct spans *s = arg;

	s->line_ns = l->timestamp_ns - T0;
	return 0;
}

static int on_event(void *arg, const struct xs_event *ev)
{
	struct spans *s = arg;
	int64_t begin_ns = s->line_ns + ev->offset_ps / 1000;

	CHECK(!s->n || begin_ns >= s->begin_ns);
	s->n++;
	s->begin_ns = begin_ns;
	s->end_ns = begin_ns + ev->duration_ps / 1000;
	CHECK_EQ(ev->n_stats, 1);
	s->lost += ev->stats[0].u;
	return 0;
}

/* Takes the part with losses out of the run; without losses there is none. */
static void take_losses(struct tracer_run *run)
{
	const struct xs_visitor v = { .plane_begin = on_plane,
				      .line_begin = on_line,
				      .event = on_event,
				      .want_stats = true };
	struct err e;

	losses = (struct spans){ 0 };

	CHECK_EQ(run->n_parts, run->lost > 0);
	for (size_t i = 0; i < run->n_parts; i++) {
		struct buf *b = &run->parts[i].bytes;
		struct xs_source in = xs_source_memory(b->data, b->len);

		CHECK_OK(xs_read(&in, &v, &losses, &e), e);
		buf_release(b);
	}
	free(run->parts);
	run->parts = NULL;
	run->n_parts = 0;
	CHECK_EQ(losses.lost, run->lost);
}

static uint64_t gather(struct ring *r, struct tracer_run *run)
{
	struct ring_cut *cut = ring_run_cut(r, run, "records", NS_PER_S / 100);
	uint64_t n = 0;

	CHECK_EQ(ring_cut_each(cut, count, &n), 0);
	ring_cut_free(cut);
	take_losses(run);
	CHECK_EQ(ring_file_bytes(r), 0); /* the run was the last one */
	return n;
}

static void long_window_is_complete(void)
{
	struct tracer_run run = window(T0, 600);
	struct ring *r = ring_at(T0 - NS_PER_S);

	room = UINT64_MAX;
	ring_run_arm(r, &run);
	feed(r, T0 - NS_PER_S, T0 + 601 * NS_PER_S);
	CHECK_EQ(gather(r, &run), 60000);
	CHECK_EQ(run.result, RUN_OK);
	CHECK_STR(run.reason, "");
	CHECK_EQ(run.lost, 0);
	ring_free(r);
}

static void window_before_the_ring_is_cut(void)
{
	struct tracer_run run = window(T0 - 3 * NS_PER_S, 5), near = window(T0 - NS_PER_MS, 1);
	struct ring *r = ring_at(T0);

	feed(r, T0, T0 + 5 * NS_PER_S);
	CHECK_EQ(gather(r, &run), 200);
	CHECK_EQ(run.result, RUN_DEGRADED);
	CHECK_STR(run.reason, "window-cut");
	CHECK(strstr(run.detail, "records begin 3.000 s after the window"));
	CHECK_EQ(run.lost, 0);
	CHECK_EQ(gather(r, &near), 100); /* less than a period */
	CHECK_EQ(near.result, RUN_OK);
	ring_free(r);
}

static void full_spool_is_reported(void)
{
	struct tracer_run run = window(T0, 600);
	struct ring *r = ring_at(T0);
	uint64_t n;

	room = 64 << 10;
	ring_run_arm(r, &run);
	feed(r, T0, T0 + 600 * NS_PER_S);
	n = gather(r, &run);
	CHECK(n > 1500 && n < 60000);
	CHECK_EQ(n + run.lost, 60000);
	CHECK_EQ(run.result, RUN_DEGRADED);
	CHECK_STR(run.reason, "disk-full");
	CHECK(strstr(run.detail, "--spool-limit"));
	ring_free(r);
}

/* The window is there, but for a record that came too late. */
static void late_records_are_reported(void)
{
	struct tracer_run run = window(T0 + NS_PER_S, 1);
	struct ring *r = ring_at(T0);

	feed(r, T0, T0 + 3 * NS_PER_S);
	CHECK(!ring_add(r, T0 + 3 * NS_PER_S / 2, "late", 4));
	CHECK_EQ(gather(r, &run), 100);
	CHECK_EQ(run.lost, 1);
	CHECK_EQ(run.result, RUN_OK);
	CHECK(strstr(run.detail, "1 records are lost"));
	CHECK_EQ(losses.n, 1);
	CHECK_EQ(losses.begin_ns, 3 * NS_PER_S / 2);
	CHECK_EQ(losses.end_ns, losses.begin_ns);
	ring_free(r);
}

/* The agent was stopped: a window that has more than half of its records is there, with a count. */
static void a_stop_is_reported(void)
{
	static const struct {
		int64_t from_s, to_s; /* of the window, from T0 on */
		uint64_t n;
		int result;
	} windows[] = {
		{ 2, 4, 200, RUN_OK },	      { 4, 6, 120, RUN_OK },
		{ 4, 7, 120, RUN_DEGRADED },  { 6, 8, 0, RUN_DEGRADED },
		{ 8, 11, 100, RUN_DEGRADED }, { 9, 12, 200, RUN_OK },
		{ 10, 12, 200, RUN_OK },
	};
	struct ring *r = ring_at(T0);

	feed(r, T0, T0 + 5200 * NS_PER_MS);
	ring_add_gap(r, T0 + 5200 * NS_PER_MS, T0 + 10 * NS_PER_S - 1, 480);
	feed(r, T0 + 10 * NS_PER_S, T0 + 12 * NS_PER_S);
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		int64_t length_s = windows[i].to_s - windows[i].from_s;
		struct tracer_run run = window(T0 + windows[i].from_s * NS_PER_S, length_s);

		CHECK_EQ(gather(r, &run), windows[i].n);
		CHECK_EQ(run.result, windows[i].result);
		CHECK_STR(run.reason, run.result == RUN_OK ? "" : "window-cut");
		CHECK(run.result == RUN_OK ||
		      strstr(run.detail, "most or all records of the window"));
		CHECK_EQ(run.lost, windows[i].from_s < 10 && windows[i].to_s > 5 ? 480 : 0);
		if (windows[i].to_s == 6) {
			CHECK_EQ(losses.begin_ns, 5200 * NS_PER_MS);
			CHECK_EQ(losses.end_ns, 6 * NS_PER_S);
		}
	}
	ring_free(r);
}

/* What one source missed in several turns is one stop. */
static void gaps_that_meet_are_one(void)
{
	struct tracer_run run = window(T0 + NS_PER_S, 4), whole = window(T0, 12);
	struct ring *r = ring_at(T0);

	feed(r, T0, T0 + 2 * NS_PER_S);
	for (int64_t at = T0 + 2 * NS_PER_S; at < T0 + 5 * NS_PER_S; at += NS_PER_S / 10)
		ring_add_gap(r, at, at + NS_PER_S / 10, 10);
	feed(r, T0 + 5 * NS_PER_S, T0 + 12 * NS_PER_S);
	CHECK_EQ(gather(r, &run), 100);
	CHECK_EQ(run.lost, 300);
	CHECK_EQ(losses.n, 1);
	CHECK_EQ(losses.begin_ns, 2 * NS_PER_S);
	CHECK_EQ(losses.end_ns, 5 * NS_PER_S);
	CHECK_EQ(run.result, RUN_DEGRADED);
	CHECK_STR(run.reason, "window-cut");
	CHECK_EQ(gather(r, &whole), 900);
	CHECK_EQ(whole.result, RUN_OK);
	ring_free(r);
}

/* A gap of one source among many does not make a window empty. */
static void other_sources_make_a_window(void)
{
	struct tracer_run run = window(T0 + NS_PER_S, 1);
	struct ring *r = ring_at(T0);

	feed(r, T0, T0 + 3 * NS_PER_S);
	ring_add_gap(r, T0 + 5 * NS_PER_S / 2, T0 + NS_PER_S / 2,
		     100); /* ends in the other order */
	CHECK_EQ(gather(r, &run), 100);
	CHECK_EQ(run.result, RUN_OK);
	CHECK_EQ(run.lost, 100);
	CHECK_EQ(losses.begin_ns, NS_PER_S);
	CHECK_EQ(losses.end_ns, 2 * NS_PER_S);
	ring_free(r);
}

static void cancelled_runs_hold_nothing(void)
{
	struct tracer_run run = window(T0, 600);
	struct ring *r = ring_at(T0);

	room = UINT64_MAX;
	ring_run_cancel(r, &run); /* was never armed */
	ring_run_arm(r, &run);
	feed(r, T0, T0 + 300 * NS_PER_S);
	CHECK(ring_file_bytes(r) > 100000);
	ring_run_cancel(r, &run);
	CHECK_EQ(ring_file_bytes(r), 0);
	ring_run_cancel(r, &run);
	ring_free(r);
}

int main(void)
{
	long_window_is_complete();
	window_before_the_ring_is_cut();
	full_spool_is_reported();
	late_records_are_reported();
	a_stop_is_reported();
	gaps_that_meet_are_one();
	other_sources_make_a_window();
	cancelled_runs_hold_nothing();
	return 0;
}
