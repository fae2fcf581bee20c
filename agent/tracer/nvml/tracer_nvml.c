/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "nvml": numbers about NVIDIA devices (devices.h), at regular times. A worker loads the library and reads,
 * because the driver may block both for long.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/counters.h"
#include "agent/tracer/nvml/devices.h"
#include "agent/tracer/ring_run.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

TRACER_DECLARE(nvml);

struct nvml_conf {
	char *nvml_library;
	int nvml_hz;
};

static const struct conf_field conf_fields[] = {
	CONF(struct nvml_conf, nvml_library, "libnvidia-ml.so.1",
	     "NVIDIA's management library, which comes with the driver; \"\" = none"),
	CONF_RANGE(struct nvml_conf, nvml_hz, "2", 1, 20, "readings of NVIDIA devices per second"),
	{ 0 }
};

/* The library while a worker loads it. */
struct loading {
	struct tracer_nvml *owner; /* loop's thread only; NULL when the tracer is gone */
	char *library;
	struct devices *devices; /* NULL: it cannot be used */
	struct err error;
};

struct tracer_nvml {
	struct tracer base;
	struct loop *loop;
	int64_t period_ns;
	struct ring_limits limits;
	struct loading *loading; /* the job that loads the library; NULL = it has ended */
	struct counters *counters; /* NULL = the library is being loaded, or the tracer is off */
	char off[256]; /* why the tracer is off */
};

static struct tracer_nvml *to_nvml(const struct tracer *t)
{
	assert(t->ops == &tracer_nvml_ops);
	return (struct tracer_nvml *)t;
}

static void read_devices(void *arg, int64_t raw_ns, struct counters_reading *reading)
{
	(void)raw_ns;
	devices_read(arg, now_mono_ns(), counters_add_row(reading, ""));
}

static const char *column_name(size_t column, char text[COUNTERS_NAME_BYTES])
{
	devices_name(column / devices_counters(), column % devices_counters(), text,
		     COUNTERS_NAME_BYTES);
	return text;
}

static void close_devices(void *arg)
{
	devices_free(arg);
}

/* ---- loading ---- */

static void load(void *arg)
{
	struct loading *l = arg;

	if (!devices_open(&l->devices, l->library, &l->error) && !devices_count(l->devices)) {
		devices_free(l->devices);
		l->devices = NULL;
		(void)err_set(&l->error, ERR_NOT_FOUND, "NVML knows no device here");
	}
}

static void start(struct tracer_nvml *t, struct devices *devices)
{
	const struct counters_source source = {
		.plane = "/host:CPU nvml",
		.what = "numbers of NVIDIA devices",
		.columns = devices_count(devices) * devices_counters(),
		.read = read_devices,
		.name = column_name,
		.free = close_devices,
		.arg = devices,
	};

	t->counters = counters_start(t->loop, &source, t->period_ns, &t->limits);
}

static void on_loaded(void *arg)
{
	struct loading *l = arg;
	struct tracer_nvml *t = l->owner;

	if (!t) {
		devices_free(l->devices);
	} else {
		t->loading = NULL;
		if (l->devices)
			start(t, l->devices);
		else
			snprintf(t->off, sizeof(t->off), "%s", l->error.msg);
	}
	free(l->library);
	free(l);
}

static int nvml_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct nvml_conf *conf = env->conf;
	struct tracer_nvml *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_nvml_ops;
	t->loop = env->loop;
	t->limits = env->ring;
	t->period_ns = NS_PER_S / conf->nvml_hz;
	*out = &t->base;
	if (!conf->nvml_library || !*conf->nvml_library) {
		snprintf(t->off, sizeof(t->off), "no library: set --nvml-library");
		return 0;
	}
	t->loading = xcalloc(1, sizeof(*t->loading));
	t->loading->owner = t;
	t->loading->library = xstrdup(conf->nvml_library);
	loop_work(t->loop, load, on_loaded, t->loading);
	return 0;
}

static void nvml_state(const struct tracer *tracer, struct tracer_state *out)
{
	const struct tracer_nvml *t = to_nvml(tracer);

	*out = (struct tracer_state){ .health = t->counters ? TRACER_OK : TRACER_OFF };
	if (!t->counters)
		snprintf(out->reason, sizeof(out->reason), "%s",
			 t->loading ? "NVML is being loaded" : t->off);
}

/* ---- runs ---- */

static int64_t nvml_begin(const struct tracer *tracer)
{
	const struct tracer_nvml *t = to_nvml(tracer);

	return t->counters ? ring_begin(counters_ring(t->counters)) : INT64_MAX;
}

static int nvml_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_nvml *t = to_nvml(tracer);

	(void)e;
	if (t->counters)
		ring_run_arm(counters_ring(t->counters), run);
	return 0;
}

static void nvml_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_nvml *t = to_nvml(tracer);
	struct tracer_state state;

	if (t->counters) {
		counters_gather(t->counters, run, 1);
		return;
	}
	nvml_state(tracer, &state);
	tracer_run_set_result(run, RUN_OFF, REASON_UNSUPPORTED, "%s", state.reason);
	run->done(run);
}

static void nvml_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_nvml *t = to_nvml(tracer);

	if (t->counters)
		counters_cancel(t->counters, run);
}

static bool nvml_limit(struct tracer *t, unsigned int step)
{
	return counters_limit(to_nvml(t)->counters, step);
}

static void nvml_free(struct tracer *tracer)
{
	struct tracer_nvml *t = to_nvml(tracer);

	if (t->loading)
		t->loading->owner = NULL; /* on_loaded() frees it */
	counters_free(t->counters);
	free(t);
}

const struct tracer_ops tracer_nvml_ops = {
	.name = "nvml",
	.host_level = 2,
	.other_level = LEVEL_DEVICE,
	.conf = conf_fields,
	.conf_size = sizeof(struct nvml_conf),
	.open = nvml_open,
	.state = nvml_state,
	.begin_raw_ns = nvml_begin,
	.arm = nvml_arm,
	.gather = nvml_gather,
	.cancel = nvml_cancel,
	.limit = nvml_limit,
	.free = nvml_free,
};
