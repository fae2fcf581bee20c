/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "metrics": reads numbers about the host into a ring at regular times, always on. A worker reads: on
 * a large host some files of /proc take the kernel milliseconds. A reading has the time at which it was made,
 * even if it is late; while one is being made no other begins, and one that is missed adds no record.
 *
 * The plane "/host:CPU metrics" has one line, "_counters_", with one event per number and reading.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/build_job.h"
#include "agent/tracer/metrics/readings.h"
#include "agent/tracer/ring_run.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

/* XProf's id of this line: it cuts TSL's INT64_MAX to 32 bits, which a browser can represent. */
#define COUNTERS_LINE_ID INT64_C(0xffffffff)

TRACER_DECLARE(metrics);

struct metrics_conf {
	int metrics_hz;
};

static const struct conf_field conf_fields[] = { CONF_RANGE(struct metrics_conf, metrics_hz, "10",
							    1, 100, "readings of /proc per second"),
						 { 0 } };

static const struct setting settings[] = {
	{ "max_hz", SETTING_INT, 1, 100, 100,
	  "most readings per second in the file, out of the --metrics-hz that are made" },
	{ 0 }
};

/* The worker's while a reading is made. */
struct reader {
	struct tracer_metrics *owner; /* loop's thread only; NULL when the tracer is gone */
	struct readings *proc;
	int64_t raw_ns;
	double *row; /* readings_count() values: a record of the ring */
};

struct tracer_metrics {
	struct tracer base;
	struct loop *loop;
	struct loop_timer timer;
	int64_t period_ns;
	struct reader *reader;
	bool reading;
	struct ring *ring; /* NULL = off */
	struct tracer_state state;
};

struct snapshot {
	int64_t t0_raw_ns;
	struct ring_cut *cut;
	size_t stride; /* the file gets one of so many rows */
};

static struct tracer_metrics *to_metrics(const struct tracer *t)
{
	assert(t->ops == &tracer_metrics_ops);
	return (struct tracer_metrics *)t;
}

static size_t row_bytes(const struct reader *r)
{
	return readings_count(r->proc) * sizeof(double);
}

static struct reader *reader_new(struct tracer_metrics *owner)
{
	struct reader *r = xcalloc(1, sizeof(*r));

	r->owner = owner;
	r->proc = readings_open("/proc");
	r->row = xcalloc(1, row_bytes(r));
	return r;
}

static void reader_free(struct reader *r)
{
	readings_free(r->proc);
	free(r->row);
	free(r);
}

static void read_row(void *arg)
{
	struct reader *r = arg;

	r->raw_ns = now_raw_ns();
	readings_read(r->proc, r->raw_ns, r->row);
}

static void on_row(void *arg)
{
	struct reader *r = arg;
	struct tracer_metrics *t = r->owner;

	if (!t) {
		reader_free(r);
		return;
	}
	t->reading = false;
	ring_add(t->ring, r->raw_ns, r->row, row_bytes(r));
}

static void on_reading_due(void *arg)
{
	struct tracer_metrics *t = arg;
	int64_t next = t->timer.at_mono_ns + t->period_ns, now = now_mono_ns();

	loop_timer_at(t->loop, &t->timer, next > now ? next : now + t->period_ns, on_reading_due,
		      t);
	if (t->reading) { /* a missing point is not one that has not changed */
		ring_add_loss(t->ring, now_raw_ns(), 1);
		return;
	}
	t->reading = true;
	loop_work(t->loop, read_row, on_row, t->reader);
}

static void start_reading(struct tracer_metrics *t, const struct ring_limits *limits)
{
	t->ring = ring_new(&(struct ring_conf){ .limits = *limits,
						.record_bytes = row_bytes(t->reader),
						.begin_raw_ns = now_raw_ns() });
	t->timer.at_mono_ns = now_mono_ns();
	on_reading_due(t);
}

static int metrics_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct metrics_conf *conf = env->conf;
	struct tracer_metrics *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_metrics_ops;
	t->loop = env->loop;
	t->reader = reader_new(t);
	if (!readings_files(t->reader->proc)) {
		t->state.health = TRACER_OFF;
		snprintf(t->state.reason, sizeof(t->state.reason),
			 "no file of /proc can be read: mount proc into the agent's container");
	} else {
		t->period_ns = NS_PER_S / conf->metrics_hz;
		start_reading(t, &env->ring);
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

	ring_cut_free(s->cut);
	free(s);
}

struct plane {
	struct xs_builder *b;
	int64_t t0_raw_ns;
	size_t n, stride; /* rows so far; the plane gets one of so many */
};

static bool build_row(void *arg, const struct ring_record *record)
{
	struct plane *plane = arg;
	const double *row = record->data;
	char text[READINGS_NAME_BYTES];

	if (plane->n++ % plane->stride)
		return true;
	for (size_t c = 0; c < record->len / sizeof(*row); c++) {
		if (!isfinite(row[c]))
			continue;
		xs_event(plane->b, readings_name(c, text),
			 (record->raw_ns - plane->t0_raw_ns) * 1000, 0);
		xs_stat_double(plane->b, "value", row[c]);
	}
	return true;
}

static uint64_t build(void *arg, struct xs_builder *b)
{
	const struct snapshot *s = arg;
	struct plane plane = { .b = b, .t0_raw_ns = s->t0_raw_ns, .stride = s->stride };

	xs_plane(b, 0, "/host:CPU metrics");
	xs_line(b, COUNTERS_LINE_ID, "_counters_", s->t0_raw_ns);
	return ring_cut_each(s->cut, build_row, &plane);
}

static int64_t metrics_begin(const struct tracer *tracer)
{
	const struct tracer_metrics *t = to_metrics(tracer);

	return t->ring ? ring_begin(t->ring) : INT64_MAX;
}

static int metrics_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_metrics *t = to_metrics(tracer);

	(void)e;
	if (t->ring)
		ring_run_arm(t->ring, run);
	return 0;
}

static size_t choose_row_stride(const struct tracer_metrics *t, const struct tracer_run *run)
{
	int64_t max_hz = tracer_run_setting(run, &tracer_metrics_ops, "max_hz");
	int64_t hz = NS_PER_S / t->period_ns;

	return (size_t)((hz + max_hz - 1) / max_hz);
}

static void metrics_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_metrics *t = to_metrics(tracer);
	struct snapshot *s;

	if (t->state.health == TRACER_OFF) {
		tracer_run_set_result(run, RUN_OFF, REASON_UNSUPPORTED, "%s", t->state.reason);
		run->done(run);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->t0_raw_ns = run->t0_raw_ns;
	s->stride = choose_row_stride(t, run);
	s->cut = ring_run_cut(t->ring, run, "metrics", t->period_ns);
	build_job_start(
		t->loop, run,
		&(struct build_job){ .build = build, .free = snapshot_free, .snapshot = s });
}

static void metrics_cancel(struct tracer *t, struct tracer_run *run)
{
	if (to_metrics(t)->ring)
		ring_run_cancel(to_metrics(t)->ring, run);
	build_job_cancel(run);
}

static void metrics_free(struct tracer *tracer)
{
	struct tracer_metrics *t = to_metrics(tracer);

	loop_timer_cancel(t->loop, &t->timer);
	if (t->reading)
		t->reader->owner = NULL; /* on_row() frees it */
	else
		reader_free(t->reader);
	ring_free(t->ring);
	free(t);
}

const struct tracer_ops tracer_metrics_ops = {
	.name = "metrics",
	.host_level = 2,
	.conf = conf_fields,
	.conf_size = sizeof(struct metrics_conf),
	.settings = settings,
	.open = metrics_open,
	.state = metrics_state,
	.begin_raw_ns = metrics_begin,
	.arm = metrics_arm,
	.gather = metrics_gather,
	.cancel = metrics_cancel,
	.free = metrics_free,
};
