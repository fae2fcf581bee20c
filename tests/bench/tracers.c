/* SPDX-License-Identifier: Apache-2.0 */
/* What the always-on tracers cost on this host now: one line of JSON. A mirror, not a gate. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "agent/marks/marks.h"
#include "agent/tracers.h"
#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/tracer_bed.h"

static const struct tracer_ops *const always_on[] = { &tracer_cpu_ops, &tracer_metrics_ops,
						      &tracer_marks_ops };

#define ALWAYS_ON (sizeof(always_on) / sizeof(always_on[0]))

static double cpu_seconds(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static long rss_kb(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size, pages = 0;

	if (f && fscanf(f, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * 4;
}

static void turn_for(struct loop *l, double seconds)
{
	int64_t end = now_mono_ns() + (int64_t)(seconds * (double)NS_PER_S);

	while (now_mono_ns() < end)
		loop_turn(l, 50);
}

static void on_done(struct tracer_run *run)
{
	*(bool *)run->done_arg = true;
}

/* Milliseconds until the tracer gave its part of the last `seconds`. */
static double gather_ms(struct loop *l, struct tracer *t, double seconds, size_t *bytes)
{
	int64_t start = now_mono_ns(), raw = now_raw_ns();
	bool done = false;
	struct tracer_run run = { .t0_raw_ns = raw - (int64_t)(seconds * (double)NS_PER_S),
				  .t1_raw_ns = raw,
				  .done = on_done,
				  .done_arg = &done };

	t->ops->gather(t, &run);
	while (!done)
		loop_turn(l, 50);
	for (size_t i = 0; i < run.n_parts; i++) {
		*bytes += run.parts[i].bytes.len;
		buf_release(&run.parts[i].bytes);
	}
	free(run.parts);
	return (double)(now_mono_ns() - start) / 1e6;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 10, before, first, steady, gather = 0;
	struct tracer_env env = { .marks = marks_new(&(struct ring_limits){ 0 }, now_raw_ns()) };
	struct tracer_bed beds[ALWAYS_ON];
	struct tracer *tracers_open[ALWAYS_ON];
	size_t bytes = 0;
	struct err e;

	if (loop_new(&env.loop, 2, &e))
		return 1;
	before = cpu_seconds();
	for (size_t i = 0; i < ALWAYS_ON; i++) {
		tracer_bed_init(&beds[i], always_on[i], &env, NULL);
		tracers_open[i] = tracer_bed_open(&beds[i]);
	}
	turn_for(env.loop, seconds); /* the first of everything: symbols of all that runs */
	first = cpu_seconds() - before;
	before = cpu_seconds();
	turn_for(env.loop, seconds);
	steady = cpu_seconds() - before;
	for (size_t i = 0; i < ALWAYS_ON; i++)
		gather += gather_ms(env.loop, tracers_open[i], seconds, &bytes);
	printf("{\"seconds\": %g, \"first_cpu_percent\": %.3f, \"steady_cpu_percent\": %.3f, "
	       "\"rss_kb\": %ld, \"gather_ms\": %.1f, \"gather_bytes\": %zu}\n",
	       seconds, 100 * first / seconds, 100 * steady / seconds, rss_kb(), gather, bytes);
	for (size_t i = 0; i < ALWAYS_ON; i++) {
		always_on[i]->free(tracers_open[i]);
		tracer_bed_release(&beds[i]);
	}
	marks_free(env.marks);
	loop_free(env.loop);
	return 0;
}
