/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/counters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/build_job.h"
#include "agent/tracer/ring_run.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

/* The id of this line: TSL's INT64_MAX, cut to 32 bits as XProf does, so that a browser can represent it. */
#define COUNTERS_LINE_ID INT64_C(0xffffffff)

#define STEPS_MAX 3 /* of counters_limit() */

/* CPU time of a quick reading: a tenth of what a turn of the loop may take */
#define QUICK_NS (LOOP_TURN_NS / 10)

/* A reading that is so much later than the period was not made because the agent did not run. */
#define STOP_NS NS_PER_S

struct counters_reading {
	const struct counters_source *source;
	struct buf rows; /* of row_bytes() each: label and columns */
};

/* A reading. While it is being made, only the worker uses this. */
struct reader {
	struct counters *owner; /* loop's thread only; NULL when the counters are gone */
	struct counters_source source;
	int64_t raw_ns;
	struct counters_reading reading;
	bool is_quick; /* the reading was */
};

struct counters {
	struct loop *loop;
	struct loop_timer timer;
	int64_t period_ns; /* 0 = none */
	unsigned int step; /* of counters_limit() */
	int64_t due_raw_ns; /* when a reading was last due; 0 = never */
	struct reader *reader;
	bool reading;
	size_t n_rows; /* of the last reading, at least 1 */
	struct ring *ring;
};

struct snapshot {
	struct counters_source source; /* its constants */
	int64_t t0_raw_ns;
	struct ring_cut *cut;
	size_t stride;
};

static size_t row_bytes(const struct counters_source *s)
{
	return s->label_bytes + s->columns * sizeof(double);
}

/* ---- readings ---- */

static void release(void *arg)
{
	struct reader *r = arg;

	r->source.free(r->source.arg);
	buf_release(&r->reading.rows);
	free(r);
}

static void do_nothing(void *arg)
{
	(void)arg;
}

double *counters_add_row(struct counters_reading *reading, const char *label)
{
	const struct counters_source *s = reading->source;
	struct buf *b = &reading->rows;
	double *row;
	char *text;

	buf_reserve(b, row_bytes(s));
	text = (char *)b->data + b->len;
	row = (double *)(void *)(text + s->label_bytes);
	b->len += row_bytes(s);
	if (s->label_bytes) {
		memset(text, 0, s->label_bytes);
		snprintf(text, s->label_bytes, "%s", label);
	}
	for (size_t i = 0; i < s->columns; i++)
		row[i] = NAN;
	return row;
}

static void read_rows(void *arg)
{
	struct reader *r = arg;
	int64_t began_cpu_ns = now_thread_cpu_ns();

	buf_reset(&r->reading.rows);
	r->raw_ns = now_raw_ns();
	r->source.read(r->source.arg, r->raw_ns, &r->reading);
	r->is_quick = now_thread_cpu_ns() - began_cpu_ns < QUICK_NS;
}

static void on_rows(void *arg)
{
	struct reader *r = arg;
	struct counters *c = r->owner;
	size_t bytes = row_bytes(&r->source);

	if (!c) {
		release(r);
		return;
	}
	c->reading = false;
	c->n_rows = r->reading.rows.len > bytes ? r->reading.rows.len / bytes : 1;
	for (size_t at = 0; at < r->reading.rows.len; at += bytes)
		ring_add(c->ring, r->raw_ns, r->reading.rows.data + at, bytes);
}

/* An agent that was stopped, or on a machine that was, has no readings of that time. */
static void note_stop(struct counters *c)
{
	int64_t now_ns = now_raw_ns(), period_ns = c->period_ns << c->step;
	int64_t away_ns = now_ns - c->due_raw_ns;

	if (!c->due_raw_ns || away_ns <= STOP_NS + 2 * period_ns)
		return;
	ring_add_gap(c->ring, c->due_raw_ns, now_ns, (uint64_t)(away_ns / period_ns) * c->n_rows);
	c->due_raw_ns = now_ns;
}

static void on_due(void *arg)
{
	struct counters *c = arg;
	int64_t last_raw_ns;

	note_stop(c);
	last_raw_ns = c->due_raw_ns;
	c->due_raw_ns = now_raw_ns();
	loop_timer_each(c->loop, &c->timer, c->period_ns << c->step, on_due, c);
	if (c->reading) { /* a missing point must not look like an unchanged value */
		ring_add_gap(c->ring, last_raw_ns, c->due_raw_ns, c->n_rows);
	} else if (c->reader->source.never_waits && c->reader->is_quick) {
		counters_read(c);
	} else {
		c->reading = true;
		loop_work(c->loop, read_rows, on_rows, c->reader);
	}
}

struct counters *counters_start(struct loop *loop, const struct counters_source *source,
				int64_t period_ns, const struct ring_limits *limits)
{
	struct counters *c = xcalloc(1, sizeof(*c));

	c->loop = loop;
	c->period_ns = period_ns;
	c->n_rows = 1;
	c->reader = xcalloc(1, sizeof(*c->reader));
	c->reader->owner = c;
	c->reader->source = *source;
	c->reader->reading.source = &c->reader->source;
	c->ring = ring_new(&(struct ring_conf){ .limits = *limits,
						.record_bytes = row_bytes(source),
						.begin_raw_ns = now_raw_ns() });
	if (!period_ns)
		return c;
	on_due(c);
	/* at least a whole period for the first reading */
	loop_timer_at(loop, &c->timer, (now_mono_ns() / period_ns + 2) * period_ns, on_due, c);
	return c;
}

void counters_read(struct counters *c)
{
	read_rows(c->reader);
	on_rows(c->reader);
}

bool counters_limit(struct counters *c, unsigned int step)
{
	if (!c || step > STEPS_MAX)
		return false;
	c->step = step;
	return true;
}

void counters_free(struct counters *c)
{
	if (!c)
		return;
	loop_timer_cancel(c->loop, &c->timer);
	if (c->reading)
		c->reader->owner = NULL; /* on_rows() releases it */
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
	size_t n; /* number of readings so far */
	int64_t raw_ns; /* of the last one */
};

static bool build_row(void *arg, const struct ring_record *record)
{
	struct plane *plane = arg;
	const struct snapshot *s = plane->s;
	const char *label = s->source.label_bytes ? record->data : "";
	const double *row = (const void *)((const char *)record->data + s->source.label_bytes);
	char text[COUNTERS_NAME_BYTES], full[2 * COUNTERS_NAME_BYTES];

	if (!plane->n || record->raw_ns != plane->raw_ns)
		plane->n++;
	plane->raw_ns = record->raw_ns;
	if ((plane->n - 1) % s->stride)
		return true;
	for (size_t i = 0; i < s->source.columns; i++) {
		const char *name = s->source.name(i, text);

		if (!isfinite(row[i]))
			continue;
		if (*label) {
			snprintf(full, sizeof(full), "%s: %s", label, name);
			name = full;
		}
		xs_event(plane->b, name, (record->raw_ns - s->t0_raw_ns) * 1000, 0);
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
	if (c->period_ns)
		note_stop(c); /* a request may come before the timer */
	s->cut = ring_run_cut(c->ring, run, s->source.what, c->period_ns);
	build_job_start(c->loop, run,
			&(struct build_job){ .build = build,
					     .free = snapshot_free,
					     .snapshot = s,
					     .is_small = ring_cut_bytes(s->cut) <=
							 BUILD_SMALL_BYTES });
}

void counters_cancel(struct counters *c, struct tracer_run *run)
{
	ring_run_cancel(c->ring, run);
	build_job_cancel(run);
}
