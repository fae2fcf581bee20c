/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/counters.h"

#include <math.h>
#include <stdlib.h>

#include "agent/tracer/build_job.h"
#include "agent/tracer/ring_run.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

/* XProf's id of this line: it cuts TSL's INT64_MAX to 32 bits, which a browser can represent. */
#define COUNTERS_LINE_ID INT64_C(0xffffffff)

/* The worker's while a reading is made. */
struct reader {
	struct counters *owner; /* loop's thread only; NULL when the counters are gone */
	struct counters_source source;
	int64_t raw_ns;
	double *row;
};

struct counters {
	struct loop *loop;
	struct loop_timer timer;
	int64_t period_ns;
	struct reader *reader;
	bool reading;
	struct ring *ring;
};

struct snapshot {
	struct counters_source source; /* its constants */
	int64_t t0_raw_ns;
	struct ring_cut *cut;
	size_t stride;
};

static size_t row_bytes(const struct reader *r)
{
	return r->source.columns * sizeof(*r->row);
}

/* ---- readings ---- */

static void release(void *arg)
{
	struct reader *r = arg;

	r->source.free(r->source.arg);
	free(r->row);
	free(r);
}

static void do_nothing(void *arg)
{
	(void)arg;
}

static void read_row(void *arg)
{
	struct reader *r = arg;

	r->raw_ns = now_raw_ns();
	r->source.read(r->source.arg, r->raw_ns, r->row);
}

static void on_row(void *arg)
{
	struct reader *r = arg;
	struct counters *c = r->owner;

	if (!c) {
		release(r);
		return;
	}
	c->reading = false;
	ring_add(c->ring, r->raw_ns, r->row, row_bytes(r));
}

static void on_due(void *arg)
{
	struct counters *c = arg;
	int64_t next = c->timer.at_mono_ns + c->period_ns, now = now_mono_ns();

	loop_timer_at(c->loop, &c->timer, next > now ? next : now + c->period_ns, on_due, c);
	if (c->reading) { /* a missing point is not one that has not changed */
		ring_add_loss(c->ring, now_raw_ns(), 1);
		return;
	}
	c->reading = true;
	loop_work(c->loop, read_row, on_row, c->reader);
}

struct counters *counters_start(struct loop *loop, const struct counters_source *source,
				int64_t period_ns, const struct ring_limits *limits)
{
	struct counters *c = xcalloc(1, sizeof(*c));

	c->loop = loop;
	c->period_ns = period_ns;
	c->reader = xcalloc(1, sizeof(*c->reader));
	c->reader->owner = c;
	c->reader->source = *source;
	c->reader->row = xcalloc(source->columns, sizeof(*c->reader->row));
	c->ring = ring_new(&(struct ring_conf){ .limits = *limits,
						.record_bytes = row_bytes(c->reader),
						.begin_raw_ns = now_raw_ns() });
	c->timer.at_mono_ns = now_mono_ns();
	on_due(c);
	return c;
}

void counters_free(struct counters *c)
{
	if (!c)
		return;
	loop_timer_cancel(c->loop, &c->timer);
	if (c->reading)
		c->reader->owner = NULL; /* on_row() releases it */
	else
		loop_work(c->loop, release, do_nothing, c->reader);
	ring_free(c->ring);
	free(c);
}

struct ring *counters_ring(const struct counters *c)
{
	return c->ring;
}

/* ---- the plane ---- */

static void snapshot_free(void *arg)
{
	struct snapshot *s = arg;

	ring_cut_free(s->cut);
	free(s);
}

struct plane {
	struct xs_builder *b;
	const struct snapshot *s;
	size_t n; /* rows so far */
};

static bool build_row(void *arg, const struct ring_record *record)
{
	struct plane *plane = arg;
	const struct snapshot *s = plane->s;
	const double *row = record->data;
	char text[COUNTERS_NAME_BYTES];

	if (plane->n++ % s->stride)
		return true;
	for (size_t i = 0; i < s->source.columns; i++) {
		if (!isfinite(row[i]))
			continue;
		xs_event(plane->b, s->source.name(i, text), (record->raw_ns - s->t0_raw_ns) * 1000,
			 0);
		xs_stat_double(plane->b, "value", row[i]);
	}
	return true;
}

static uint64_t build(void *arg, struct xs_builder *b)
{
	const struct snapshot *s = arg;
	struct plane plane = { .b = b, .s = s };

	xs_plane(b, 0, s->source.plane);
	xs_line(b, COUNTERS_LINE_ID, "_counters_", s->t0_raw_ns);
	return ring_cut_each(s->cut, build_row, &plane);
}

void counters_gather(struct counters *c, struct tracer_run *run, size_t stride)
{
	struct snapshot *s = xcalloc(1, sizeof(*s));

	s->source = c->reader->source;
	s->t0_raw_ns = run->t0_raw_ns;
	s->stride = stride;
	s->cut = ring_run_cut(c->ring, run, s->source.what, c->period_ns);
	build_job_start(
		c->loop, run,
		&(struct build_job){ .build = build, .free = snapshot_free, .snapshot = s });
}

void counters_cancel(struct counters *c, struct tracer_run *run)
{
	ring_run_cancel(c->ring, run);
	build_job_cancel(run);
}
