/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer "metrics": numbers about the host, from /proc (readings.h), at regular times. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/tracer/counters.h"
#include "agent/tracer/metrics/readings.h"
#include "agent/tracer/ring_run.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

TRACER_DECLARE(metrics);

struct metrics_conf {
	int metrics_hz;
};

static const struct conf_field conf_fields[] = { CONF_RANGE(struct metrics_conf, metrics_hz, "10",
							    1, 100, "readings of /proc per second"),
						 { 0 } };

static const struct setting settings[] = {
	{ "max_hz", SETTING_INT, 1, 100, 100,
	  "most readings per second in the file; --metrics-hz are made" },
	{ 0 }
};

struct tracer_metrics {
	struct tracer base;
	struct loop *loop;
	int64_t period_ns;
	struct counters *counters; /* NULL = off */
};

static struct tracer_metrics *to_metrics(const struct tracer *t)
{
	assert(t->ops == &tracer_metrics_ops);
	return (struct tracer_metrics *)t;
}

static void read_files(void *arg, int64_t raw_ns, struct counters_reading *reading)
{
	readings_read(arg, raw_ns, counters_add_row(reading, ""));
}

static void close_files(void *arg)
{
	readings_free(arg);
}

static int metrics_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct metrics_conf *conf = env->conf;
	struct tracer_metrics *t = xcalloc(1, sizeof(*t));
	struct readings *files = readings_open("/proc");
	const struct counters_source source = { .plane = "/host:CPU metrics",
						.what = "metrics",
						.columns = readings_count(files),
						.read = read_files,
						.never_waits = true,
						.name = readings_name,
						.free = close_files,
						.arg = files };

	(void)e;
	t->base.ops = &tracer_metrics_ops;
	t->loop = env->loop;
	t->period_ns = NS_PER_S / conf->metrics_hz;
	if (readings_files(files))
		t->counters = counters_start(t->loop, &source, t->period_ns, &env->ring);
	else
		readings_free(files);
	*out = &t->base;
	return 0;
}

static void metrics_state(const struct tracer *t, struct tracer_state *out)
{
	*out = (struct tracer_state){ .health = TRACER_OK };
	if (to_metrics(t)->counters)
		return;
	out->health = TRACER_OFF;
	snprintf(out->reason, sizeof(out->reason),
		 "no file of /proc can be read: mount proc into the agent's container");
}

static int64_t metrics_begin(const struct tracer *tracer)
{
	const struct tracer_metrics *t = to_metrics(tracer);

	return t->counters ? ring_begin(counters_ring(t->counters)) : INT64_MAX;
}

static int metrics_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_metrics *t = to_metrics(tracer);

	(void)e;
	if (t->counters)
		ring_run_arm(counters_ring(t->counters), run);
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
	struct tracer_state state;

	if (t->counters) {
		counters_gather(t->counters, run, choose_row_stride(t, run));
		return;
	}
	metrics_state(tracer, &state);
	tracer_run_set_result(run, RUN_OFF, REASON_UNSUPPORTED, "%s", state.reason);
	run->done(run);
}

static void metrics_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_metrics *t = to_metrics(tracer);

	if (t->counters)
		counters_cancel(t->counters, run);
}

static bool metrics_limit(struct tracer *t, unsigned int step)
{
	return counters_limit(to_metrics(t)->counters, step);
}

static void metrics_free(struct tracer *tracer)
{
	counters_free(to_metrics(tracer)->counters);
	free(tracer);
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
	.limit = metrics_limit,
	.free = metrics_free,
};
