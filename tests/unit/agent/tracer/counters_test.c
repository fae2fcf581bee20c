/* SPDX-License-Identifier: Apache-2.0 */
/* Readings that hang, in virtual time. */
#include "agent/tracer/counters.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/virtual_time.h"
#include "tests/sim/sim.h"

#define PERIOD_NS (NS_PER_S / 10)

struct driver {
	atomic_bool is_stuck; /* its next reading hangs */
	atomic_bool hangs; /* a reading does */
	bool go;
	int more_rows; /* of a reading, besides one */
};

static void read_driver(void *arg, int64_t raw_ns, struct counters_reading *reading)
{
	struct driver *d = arg;

	(void)raw_ns;
	if (atomic_load(&d->is_stuck)) {
		atomic_store(&d->hangs, true);
		virtual_hold_worker(&d->go);
	}
	for (int i = 0; i <= d->more_rows; i++)
		counters_add_row(reading, "")[0] = 1;
}

static const char *name_column(size_t column, char text[COUNTERS_NAME_BYTES])
{
	(void)column;
	(void)text;
	return "reads";
}

static void keep(void *arg)
{
	(void)arg;
}

static void on_done(struct tracer_run *run)
{
	*(bool *)run->done_arg = true;
}

static struct tracer_run gather(struct loop *loop, struct counters *c, int64_t t0_raw_ns)
{
	bool done = false;
	struct tracer_run run = { .t0_raw_ns = t0_raw_ns,
				  .t1_raw_ns = now_raw_ns(),
				  .done = on_done,
				  .done_arg = &done };

	counters_gather(c, &run, 1);
	RUN_UNTIL(loop, done);
	for (size_t i = 0; i < run.n_parts; i++)
		buf_release(&run.parts[i].bytes);
	free(run.parts);
	return run;
}

/* A window that a stuck driver took half of is degraded, also one that others ended meanwhile; a longer one, and those
 * before and after, only count what is lost. */
static void a_reading_hangs(void)
{
	struct driver d = { 0 };
	struct counters_source source = { .plane = "/host:CPU driver",
					  .what = "readings",
					  .columns = 1,
					  .read = read_driver,
					  .name = name_column,
					  .free = keep,
					  .arg = &d };
	struct ring_limits limits = { 0 };
	struct tracer_run run;
	struct counters *c;
	struct loop *loop;
	int64_t begin_ns, hung_ns, end_ns;
	struct err e;

	CHECK_OK(loop_new(&loop, 2, &e), e);
	c = counters_start(loop, &source, PERIOD_NS, &limits);
	begin_ns = now_raw_ns();
	run_for(loop, 2 * NS_PER_S);
	run = gather(loop, c, begin_ns);
	CHECK_EQ(run.result, RUN_OK);

	atomic_store(&d.is_stuck, true);
	RUN_UNTIL(loop, atomic_load(&d.hangs));
	hung_ns = now_raw_ns();
	for (int i = 0; i < 4; i++) {
		run_for(loop, NS_PER_S / 2);
		run = gather(loop, c, hung_ns);
	}
	CHECK_EQ(run.result, RUN_DEGRADED);
	CHECK_STR(run.reason, "window-cut");
	CHECK(strstr(run.detail, "a reading hung"));
	CHECK(run.lost > 10);
	run = gather(loop, c, hung_ns - NS_PER_S);
	CHECK_EQ(run.result, RUN_DEGRADED);

	atomic_store(&d.is_stuck, false);
	virtual_release_worker(&d.go);
	run_for(loop, NS_PER_S / 2);
	end_ns = now_raw_ns();
	run_for(loop, 3 * NS_PER_S);
	run = gather(loop, c, end_ns);
	CHECK_EQ(run.result, RUN_OK);
	CHECK_EQ(run.lost, 0);
	run = gather(loop, c, begin_ns);
	CHECK_EQ(run.result, RUN_OK);
	CHECK(run.lost > 10);
	counters_free(c);
	run_for(loop, NS_PER_S / 10);
	loop_free(loop);
}

/* An agent that did not run for half a minute lacks so many readings, each of all its rows. */
static void an_agent_is_stopped(void)
{
	struct driver d = { .more_rows = 2 };
	struct counters_source source = { .plane = "/host:CPU driver",
					  .what = "readings",
					  .columns = 1,
					  .read = read_driver,
					  .name = name_column,
					  .free = keep,
					  .arg = &d };
	struct ring_limits limits = { 0 };
	struct tracer_run run;
	struct counters *c;
	struct loop *loop;
	int64_t begin_ns;
	uint64_t before;
	struct err e;

	CHECK_OK(loop_new(&loop, 2, &e), e);
	c = counters_start(loop, &source, PERIOD_NS, &limits);
	begin_ns = now_raw_ns();
	run_for(loop, 20 * NS_PER_S);
	before = gather(loop, c, begin_ns).lost; /* a reading that took a while */
	host_pause(sim.host, 30 * NS_PER_S);
	run_for(loop, 40 * NS_PER_S);
	run = gather(loop, c, begin_ns);
	CHECK(run.lost > before + 3 * 290 && run.lost < before + 3 * 320);
	counters_free(c);
	run_for(loop, NS_PER_S);
	loop_free(loop);
}

int main(void)
{
	a_reading_hangs();
	an_agent_is_stopped();
	return 0;
}
