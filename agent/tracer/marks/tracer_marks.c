/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer "marks": the plane "/host:CPU marks" has one line per process and one instant per mark. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/build_job.h"
#include "agent/tracer/ring_run.h"
#include "agent/marks/marks.h"
#include "agent/marks/steps.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

/* How long to wait for marks after the window, since a mark comes through a socket. This delays no capture: a
 * capture waits as long for the replies to its last probes. */
#define ARRIVAL_NS (50 * NS_PER_MS)

TRACER_DECLARE(marks);

struct tracer_marks {
	struct tracer base;
	struct loop *loop;
	struct marks *marks; /* the agent's */
	struct late_run *late;
};

/* A run that waits for late marks. */
struct late_run {
	struct tracer_marks *t;
	struct tracer_run *run;
	struct loop_timer timer;
	struct late_run *next;
};

struct snapshot {
	int64_t t0_raw_ns;
	struct ring_cut *cut;
	struct mark *marks; /* filled in by the worker; owns the texts */
	size_t n, cap;
};

static struct tracer_marks *to_marks(const struct tracer *t)
{
	assert(t->ops == &tracer_marks_ops);
	return (struct tracer_marks *)t;
}

static int marks_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	struct tracer_marks *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_marks_ops;
	t->loop = env->loop;
	t->marks = env->marks;
	*out = &t->base;
	return 0;
}

static void marks_state(const struct tracer *t, struct tracer_state *out)
{
	(void)t;
	*out = (struct tracer_state){ .health = TRACER_OK };
}

static void snapshot_free(void *arg)
{
	struct snapshot *s = arg;

	for (size_t i = 0; i < s->n; i++)
		free((char *)s->marks[i].text);
	free(s->marks);
	ring_cut_free(s->cut);
	free(s);
}

static bool append_mark(void *arg, const struct ring_record *record)
{
	struct snapshot *s = arg;

	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->marks = xrealloc(s->marks, s->cap * sizeof(*s->marks));
	}
	s->marks[s->n] = mark_of_record(record);
	s->marks[s->n].text = xstrdup(s->marks[s->n].text);
	s->n++;
	return true;
}

static int by_pid_and_time(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->raw_ns > y->raw_ns) - (x->raw_ns < y->raw_ns);
}

/* Adds the event. Its name is the mark's text; for a step, without the metadata, as frameworks name their
 * steps. */
static void build_mark(struct xs_builder *b, const struct mark *m, int64_t offset_ps)
{
	char name[LIMIT_MARK_BYTES + 1];
	int64_t step = 0;
	size_t len = strlen(m->text);
	bool is_step = step_of_mark(m->text, &step, &len);

	snprintf(name, sizeof(name), "%.*s", (int)len, m->text);
	xs_event(b, name, offset_ps, 0);
	xs_stat_int(b, "pid", m->pid);
	xs_stat_int(b, "tid", m->tid);
	if (is_step)
		xs_stat_int(b, "step_num", step);
}

static uint64_t build(void *arg, struct xs_builder *b)
{
	struct snapshot *s = arg;
	uint64_t unread = ring_cut_each(s->cut, append_mark, s);
	char name[32];

	sort_array(s->marks, s->n, sizeof(*s->marks), by_pid_and_time);
	xs_plane(b, 0, "/host:CPU marks");
	for (size_t i = 0; i < s->n; i++) {
		const struct mark *m = &s->marks[i];

		if (!i || m->pid != s->marks[i - 1].pid) {
			snprintf(name, sizeof(name), "marks %" PRId32, m->pid);
			xs_line(b, m->pid, name, s->t0_raw_ns);
		}
		build_mark(b, m, (m->raw_ns - s->t0_raw_ns) * 1000);
	}
	return unread;
}

static int marks_arm(struct tracer *t, struct tracer_run *run, struct err *e)
{
	(void)e;
	ring_run_arm(marks_ring(to_marks(t)->marks), run);
	return 0;
}

/* Marks that came after their window was gathered are in no file: the next window says so. */
static void report_late(struct tracer_marks *t, struct tracer_run *run)
{
	uint64_t late = marks_take_late(t->marks, run->t0_raw_ns);
	size_t used = strlen(run->detail);

	marks_note_gathered(t->marks, run->t0_raw_ns, run->t1_raw_ns);
	if (!late)
		return;
	run->lost += late;
	snprintf(run->detail + used, sizeof(run->detail) - used,
		 "%s%" PRIu64
		 " marks of earlier windows are lost: they came more than %d ms after the end",
		 used ? "; " : "", late, (int)(ARRIVAL_NS / NS_PER_MS));
}

static void cut_and_build(struct tracer_marks *t, struct tracer_run *run)
{
	struct snapshot *s = xcalloc(1, sizeof(*s));

	s->t0_raw_ns = run->t0_raw_ns;
	s->cut = ring_run_cut(marks_ring(t->marks), run, "marks", 0);
	report_late(t, run);
	build_job_start(t->loop, run,
			&(struct build_job){ .build = build,
					     .free = snapshot_free,
					     .snapshot = s,
					     .is_small = ring_cut_bytes(s->cut) <=
							 BUILD_SMALL_BYTES,
					     .is_empty = ring_cut_is_empty(s->cut) });
}

/* False if the run does not wait. */
static bool end_wait(struct tracer_marks *t, const struct tracer_run *run)
{
	struct late_run **at = &t->late, *late;

	while (*at && (*at)->run != run)
		at = &(*at)->next;
	late = *at;
	if (!late)
		return false;
	*at = late->next;
	loop_timer_cancel(t->loop, &late->timer);
	free(late);
	return true;
}

static void on_arrived(void *arg)
{
	struct late_run *late = arg;
	struct tracer_marks *t = late->t;
	struct tracer_run *run = late->run;

	end_wait(t, run);
	cut_and_build(t, run);
}

static void marks_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_marks *t = to_marks(tracer);
	int64_t arrived_raw_ns = run->t1_raw_ns + ARRIVAL_NS;
	struct late_run *late;

	if (now_raw_ns() >= arrived_raw_ns) {
		cut_and_build(t, run);
		return;
	}
	late = xcalloc(1, sizeof(*late));
	*late = (struct late_run){ .t = t, .run = run, .next = t->late };
	t->late = late;
	loop_timer_at(t->loop, &late->timer, now_mono_of_raw(arrived_raw_ns), on_arrived, late);
}

static void marks_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_marks *t = to_marks(tracer);

	ring_run_cancel(marks_ring(t->marks), run);
	if (!end_wait(t, run))
		build_job_cancel(run);
}

static int64_t marks_begin(const struct tracer *t)
{
	return ring_begin(marks_ring(to_marks(t)->marks));
}

static void tracer_marks_free(struct tracer *t)
{
	free(to_marks(t));
}

const struct tracer_ops tracer_marks_ops = {
	.name = "marks",
	.host_level = 1,
	.open = marks_open,
	.state = marks_state,
	.begin_raw_ns = marks_begin,
	.arm = marks_arm,
	.gather = marks_gather,
	.cancel = marks_cancel,
	.free = tracer_marks_free,
};
