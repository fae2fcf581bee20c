/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "nvml": numbers about NVIDIA devices, read into a ring at regular times, always on. A worker loads the library and
 * reads: both may take the driver long. While a reading is made no other begins, and one that is missed adds no record.
 *
 * The plane "/host:CPU nvml" has one line, "_counters_", with one event per number and reading.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/build_job.h"
#include "agent/tracer/nvml/devices.h"
#include "agent/tracer/ring_run.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

/* XProf's id of this line: it cuts TSL's INT64_MAX to 32 bits, which a browser can represent. */
#define COUNTERS_LINE_ID INT64_C(0xffffffff)

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

/* The worker's while the library is loaded or a reading is made. */
struct reader {
	struct tracer_nvml *owner; /* loop's thread only; NULL when the tracer is gone */
	char *library;
	struct devices *devices; /* NULL until it is loaded */
	struct err error;
	int64_t raw_ns;
	double *row;
};

enum nvml_state { NVML_LOADING, NVML_READING, NVML_IDLE, NVML_OFF };

struct tracer_nvml {
	struct tracer base;
	struct loop *loop;
	struct loop_timer timer;
	int64_t period_ns;
	struct ring_limits limits;
	struct reader *reader;
	enum nvml_state state;
	struct ring *ring; /* of rows; NULL until the library is loaded */
	char reason[256]; /* why it is off */
};

struct snapshot {
	int64_t t0_raw_ns;
	size_t n_devices;
	struct ring_cut *cut;
};

static struct tracer_nvml *to_nvml(const struct tracer *t)
{
	assert(t->ops == &tracer_nvml_ops);
	return (struct tracer_nvml *)t;
}

/* ---- readings ---- */

static void reader_free(void *arg)
{
	struct reader *r = arg;

	devices_free(r->devices);
	free(r->library);
	free(r->row);
	free(r);
}

static void do_nothing(void *arg)
{
	(void)arg;
}

/* The library's last words may block, too. */
static void reader_retire(struct loop *loop, struct reader *r)
{
	loop_work(loop, reader_free, do_nothing, r);
}

static void read_row(void *arg)
{
	struct reader *r = arg;

	r->raw_ns = now_raw_ns();
	devices_read(r->devices, r->row);
}

static size_t row_bytes(const struct reader *r)
{
	return devices_count(r->devices) * devices_counters() * sizeof(double);
}

static void on_row(void *arg)
{
	struct reader *r = arg;
	struct tracer_nvml *t = r->owner;

	if (!t) {
		reader_free(r);
		return;
	}
	t->state = NVML_IDLE;
	ring_add(t->ring, r->raw_ns, r->row, row_bytes(r));
}

static void on_reading_due(void *arg)
{
	struct tracer_nvml *t = arg;
	int64_t next = t->timer.at_mono_ns + t->period_ns, now = now_mono_ns();

	loop_timer_at(t->loop, &t->timer, next > now ? next : now + t->period_ns, on_reading_due,
		      t);
	if (t->state != NVML_IDLE)
		return;
	t->state = NVML_READING;
	loop_work(t->loop, read_row, on_row, t->reader);
}

/* ---- loading ---- */

static void load(void *arg)
{
	struct reader *r = arg;

	if (!devices_open(&r->devices, r->library, &r->error))
		r->row = xcalloc(row_bytes(r) + 1, 1);
}

static void turn_off(struct tracer_nvml *t, const char *cause)
{
	t->state = NVML_OFF;
	snprintf(t->reason, sizeof(t->reason), "%s", cause);
}

static void on_loaded(void *arg)
{
	struct reader *r = arg;
	struct tracer_nvml *t = r->owner;

	if (!t) {
		reader_free(r);
		return;
	}
	if (!r->devices || !devices_count(r->devices)) {
		turn_off(t, r->devices ? "NVML knows no device here" : r->error.msg);
		return;
	}
	t->ring = ring_new(&(struct ring_conf){
		.limits = t->limits, .record_bytes = row_bytes(r), .begin_raw_ns = now_raw_ns() });
	t->state = NVML_IDLE;
	t->timer.at_mono_ns = now_mono_ns();
	on_reading_due(t);
}

static int nvml_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct nvml_conf *conf = env->conf;
	struct tracer_nvml *t = xcalloc(1, sizeof(*t));
	bool wanted = conf->nvml_library && *conf->nvml_library;

	(void)e;
	t->base.ops = &tracer_nvml_ops;
	t->loop = env->loop;
	t->limits = env->ring;
	t->period_ns = NS_PER_S / conf->nvml_hz;
	t->reader = xcalloc(1, sizeof(*t->reader));
	t->reader->owner = t;
	t->reader->library = xstrdup(wanted ? conf->nvml_library : "");
	*out = &t->base;
	if (!wanted) {
		turn_off(t, "no library: set --nvml-library");
		return 0;
	}
	loop_work(t->loop, load, on_loaded, t->reader);
	return 0;
}

static void nvml_state(const struct tracer *tracer, struct tracer_state *out)
{
	const struct tracer_nvml *t = to_nvml(tracer);

	*out = (struct tracer_state){ .health = t->ring ? TRACER_OK : TRACER_OFF };
	if (!t->ring)
		snprintf(out->reason, sizeof(out->reason), "%s",
			 t->state == NVML_OFF ? t->reason : "NVML is being loaded");
}

/* ---- runs ---- */

static void snapshot_free(void *arg)
{
	struct snapshot *s = arg;

	ring_cut_free(s->cut);
	free(s);
}

struct plane {
	struct xs_builder *b;
	const struct snapshot *s;
};

static bool build_row(void *arg, const struct ring_record *record)
{
	const struct plane *plane = arg;
	const double *row = record->data;
	char name[64];

	for (size_t i = 0; i < plane->s->n_devices * devices_counters(); i++) {
		if (!isfinite(row[i]))
			continue;
		devices_name(i / devices_counters(), i % devices_counters(), name, sizeof(name));
		xs_event(plane->b, name, (record->raw_ns - plane->s->t0_raw_ns) * 1000, 0);
		xs_stat_double(plane->b, "value", row[i]);
	}
	return true;
}

static uint64_t build(void *arg, struct xs_builder *b)
{
	struct plane plane = { .b = b, .s = arg };

	xs_plane(b, 0, "/host:CPU nvml");
	xs_line(b, COUNTERS_LINE_ID, "_counters_", plane.s->t0_raw_ns);
	return ring_cut_each(plane.s->cut, build_row, &plane);
}

static int64_t nvml_begin(const struct tracer *tracer)
{
	const struct tracer_nvml *t = to_nvml(tracer);

	return t->ring ? ring_begin(t->ring) : INT64_MAX;
}

static int nvml_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_nvml *t = to_nvml(tracer);

	(void)e;
	if (t->ring)
		ring_run_arm(t->ring, run);
	return 0;
}

static void nvml_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_nvml *t = to_nvml(tracer);
	struct tracer_state state;
	struct snapshot *s;

	if (!t->ring) {
		nvml_state(tracer, &state);
		tracer_run_set_result(run, RUN_OFF, REASON_UNSUPPORTED, "%s", state.reason);
		run->done(run);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->t0_raw_ns = run->t0_raw_ns;
	s->n_devices = devices_count(t->reader->devices);
	s->cut = ring_run_cut(t->ring, run, "numbers of NVIDIA devices", t->period_ns);
	build_job_start(
		t->loop, run,
		&(struct build_job){ .build = build, .free = snapshot_free, .snapshot = s });
}

static void nvml_cancel(struct tracer *tracer, struct tracer_run *run)
{
	if (to_nvml(tracer)->ring)
		ring_run_cancel(to_nvml(tracer)->ring, run);
	build_job_cancel(run);
}

static void nvml_free(struct tracer *tracer)
{
	struct tracer_nvml *t = to_nvml(tracer);

	loop_timer_cancel(t->loop, &t->timer);
	if (t->state == NVML_LOADING || t->state == NVML_READING)
		t->reader->owner = NULL; /* the worker's end frees it */
	else
		reader_retire(t->loop, t->reader);
	ring_free(t->ring);
	free(t);
}

const struct tracer_ops tracer_nvml_ops = {
	.name = "nvml",
	.host_level = 2,
	.conf = conf_fields,
	.conf_size = sizeof(struct nvml_conf),
	.open = nvml_open,
	.state = nvml_state,
	.begin_raw_ns = nvml_begin,
	.arm = nvml_arm,
	.gather = nvml_gather,
	.cancel = nvml_cancel,
	.free = nvml_free,
};
