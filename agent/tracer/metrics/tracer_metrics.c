/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers about the host, all the time: a ring of the last minute. A tick that came late is stamped
 * with the time at which it came, one that did not come is not made up.
 *
 * The plane "/host:CPU metrics" has one line, "_counters_", one event per number and tick.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/build_job.h"
#include "agent/tracer/metrics/readings.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define WINDOW_S 60
#define SLACK_S	 5 /* between the end of a window and its gather() */

/* XProf cuts line ids to 32 bits: this is what it makes of TSL's INT64_MAX, and a number that a
 * browser can hold. */
#define COUNTERS_LINE_ID INT64_C(0xffffffff)

TRACER_DECLARE(metrics);

struct metrics_conf {
	int metrics_hz;
};

static const struct conf_field conf_fields[] = { CONF_RANGE(struct metrics_conf, metrics_hz, "10",
							    1, 100, "readings of /proc per second"),
						 { 0 } };

struct tracer_metrics {
	struct tracer base;
	struct loop *loop;
	struct loop_timer tick;
	int64_t period_ns;
	struct proc_metrics *proc;
	int64_t *times; /* the ring: raw ns of each row */
	double *rows; /* cap * proc_metrics_count() */
	size_t cap;
	uint64_t ticks; /* ever; the newest is at (ticks - 1) % cap */
	int64_t started_raw_ns;
	struct tracer_state state;
};

/* Rows of the window, oldest first. */
struct snapshot {
	int64_t t0_raw_ns;
	int64_t *times;
	double *rows;
	size_t n;
};

static struct tracer_metrics *to_metrics(const struct tracer *t)
{
	assert(t->ops == &tracer_metrics_ops);
	return (struct tracer_metrics *)t;
}

static double *row_of(const struct tracer_metrics *t, uint64_t tick)
{
	return t->rows + tick % t->cap * proc_metrics_count();
}

static void on_tick(void *arg)
{
	struct tracer_metrics *t = arg;
	int64_t next = t->tick.at_mono_ns + t->period_ns, now = now_mono_ns(), raw = now_raw_ns();

	proc_metrics_read(t->proc, raw, row_of(t, t->ticks));
	t->times[t->ticks % t->cap] = raw;
	t->ticks++;
	loop_timer_at(t->loop, &t->tick, next > now ? next : now + t->period_ns, on_tick, t);
}

static void start(struct tracer_metrics *t, int hz)
{
	t->period_ns = NS_PER_S / hz;
	t->cap = (size_t)((WINDOW_S + SLACK_S) * hz);
	t->times = xcalloc(t->cap, sizeof(*t->times));
	t->rows = xcalloc(t->cap * proc_metrics_count(), sizeof(*t->rows));
	t->started_raw_ns = now_raw_ns();
	t->tick.at_mono_ns = now_mono_ns();
	on_tick(t);
}

static int metrics_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct metrics_conf *conf = env->conf;
	struct tracer_metrics *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_metrics_ops;
	t->loop = env->loop;
	t->proc = proc_metrics_open("/proc");
	if (!proc_metrics_files(t->proc)) {
		t->state.health = TRACER_OFF;
		snprintf(t->state.reason, sizeof(t->state.reason),
			 "no file of /proc can be read: mount proc into the agent's container");
	} else {
		start(t, conf->metrics_hz);
	}
	*out = &t->base;
	return 0;
}

static void metrics_state(const struct tracer *t, struct tracer_state *out)
{
	*out = to_metrics(t)->state;
}

static void snapshot_free(void *arg)
{
	struct snapshot *s = arg;

	free(s->times);
	free(s->rows);
	free(s);
}

static struct snapshot *snapshot_new(const struct tracer_metrics *t, const struct tracer_run *run)
{
	size_t width = proc_metrics_count();
	struct snapshot *s = xcalloc(1, sizeof(*s));

	s->t0_raw_ns = run->t0_raw_ns;
	s->times = xcalloc(t->cap, sizeof(*s->times));
	s->rows = xcalloc(t->cap * width, sizeof(*s->rows));
	for (uint64_t i = t->ticks > t->cap ? t->ticks - t->cap : 0; i < t->ticks; i++) {
		int64_t at = t->times[i % t->cap];

		if (at < run->t0_raw_ns || at >= run->t1_raw_ns)
			continue;
		s->times[s->n] = at;
		memcpy(s->rows + s->n++ * width, row_of(t, i), width * sizeof(*s->rows));
	}
	return s;
}

static void build(void *arg, struct xs_builder *b)
{
	const struct snapshot *s = arg;
	size_t width = proc_metrics_count();

	xs_plane(b, 0, "/host:CPU metrics");
	xs_line(b, COUNTERS_LINE_ID, "_counters_", s->t0_raw_ns);
	for (size_t i = 0; i < s->n; i++) {
		for (size_t c = 0; c < width; c++) {
			double v = s->rows[i * width + c];

			if (!isfinite(v))
				continue;
			xs_event(b, proc_metrics_name(c), (s->times[i] - s->t0_raw_ns) * 1000, 0);
			xs_stat_double(b, "value", v);
		}
	}
}

/* The window may reach back to before the oldest row. */
static void note_cut(const struct tracer_metrics *t, struct tracer_run *run)
{
	int64_t oldest = t->ticks > t->cap ? t->times[t->ticks % t->cap] : t->started_raw_ns;

	if (run->t0_raw_ns + t->period_ns < oldest)
		tracer_run_fail(
			run, RUN_DEGRADED, REASON_WINDOW_CUT,
			"metrics begin %.1f s after the window: the agent keeps the last %d s",
			(double)(oldest - run->t0_raw_ns) / (double)NS_PER_S, WINDOW_S);
}

static void metrics_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_metrics *t = to_metrics(tracer);

	if (t->state.health == TRACER_OFF) {
		tracer_run_fail(run, RUN_OFF, REASON_UNSUPPORTED, "%s", t->state.reason);
		run->done(run);
		return;
	}
	note_cut(t, run);
	build_job_start(t->loop, run,
			&(struct build_job){ .build = build,
					     .free = snapshot_free,
					     .snapshot = snapshot_new(t, run) });
}

static void metrics_cancel(struct tracer *t, struct tracer_run *run)
{
	(void)t;
	build_job_cancel(run);
}

static void metrics_free(struct tracer *tracer)
{
	struct tracer_metrics *t = to_metrics(tracer);

	loop_timer_cancel(t->loop, &t->tick);
	proc_metrics_free(t->proc);
	free(t->times);
	free(t->rows);
	free(t);
}

const struct tracer_ops tracer_metrics_ops = {
	.name = "metrics",
	.conf = conf_fields,
	.conf_size = sizeof(struct metrics_conf),
	.open = metrics_open,
	.state = metrics_state,
	.gather = metrics_gather,
	.cancel = metrics_cancel,
	.free = metrics_free,
};
