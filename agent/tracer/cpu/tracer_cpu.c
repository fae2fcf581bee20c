/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records what runs on this host's CPUs, at all times: one perf event per CPU samples call chains into a ring
 * (window.h). A worker finds the names of sampled functions early, because the process may end. A gather()
 * cuts the window out, and a worker builds the plane (plane.h).
 *
 * All jobs share one `struct symbols`: one job at a time uses it, the others wait in order of arrival.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pods/local_pods.h"
#include "agent/python/python.h"
#include "agent/tracer/cpu/plane.h"
#include "agent/tracer/cpu/window.h"
#include "agent/tracer/ring_run.h"
#include "agent/perf/rings.h"
#include "agent/symbols/symbols.h"
#include "agent/tracer/tracer.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define NODES_MAX      ((size_t)1 << 20)
#define IMAGES_MAX     65536
#define DRAIN_EVERY_NS (200 * NS_PER_MS)

/* A record can be read at most this long after its time stamp. */
#define SETTLE_NS (2 * NS_PER_MS)

TRACER_DECLARE(cpu);

struct cpu_conf {
	int cpu_hz;
};

static const struct conf_field conf_fields[] = {
	CONF_RANGE(struct cpu_conf, cpu_hz, "99", 1, 10000, "CPU samples per second and CPU"), { 0 }
};

static const struct setting settings[] = {
	{ "max_depth", SETTING_INT, 1, CPU_DEPTH_MAX, CPU_DEPTH_MAX,
	  "frames of each stack in the file, counted from the outermost" },
	{ "python", SETTING_BOOL, 0, 1, 1,
	  "Python functions in place of the interpreter's, where the tracer python is on" },
	{ 0 }
};

struct cpu_job {
	struct tracer_cpu *owner; /* loop's thread only; NULL when the tracer is gone */
	/* loop's thread only; NULL if it was cancelled, or if the job only finds names */
	struct tracer_run *run;
	struct symbols *symbols;
	/* Either questions or a cut: */
	struct cpu_questions *questions;
	struct cpu_cut *cut;
	struct buf bytes; /* of the cut's part */
	uint64_t unread; /* samples of the cut that could not be read */
	struct err missing; /* symbols_missing() */
	struct cpu_job *next;
};

struct tracer_cpu {
	struct tracer base;
	struct loop *loop;
	struct python *python; /* NULL = none */
	const struct local_pods *pods; /* NULL = none */
	struct tracer_state state;
	const char *off_reason; /* typed reason of runs while the tracer is off */
	int hz;
	int64_t period_ns;
	struct perf_rings rings;
	struct cpu_window *window;
	struct loop_timer drain_timer;
	struct symbols *symbols; /* NULL while a job has it */
	struct err missing; /* symbols_missing(), after the last job */
	struct cpu_job *running; /* uses the symbols now */
	struct cpu_job *waiting, **waiting_end;
	/* jobs that wait for their Python samples before they join `waiting`; unordered */
	struct cpu_job *expecting;
};

static struct tracer_cpu *to_cpu(const struct tracer *t)
{
	assert(t->ops == &tracer_cpu_ops);
	return (struct tracer_cpu *)t;
}

/* ---- jobs ---- */

static void job_free(struct cpu_job *j)
{
	cpu_questions_free(j->questions);
	cpu_cut_free(j->cut);
	buf_release(&j->bytes);
	free(j);
}

/* On a worker. */
static void job_run(void *arg)
{
	struct cpu_job *j = arg;
	struct xs_builder *b;

	symbols_begin(j->symbols);
	if (j->questions) {
		cpu_questions_answer(j->questions, j->symbols);
	} else {
		b = xs_builder_new();
		j->unread = cpu_cut_load(j->cut);
		/* Python samples that cannot be read count as losses of the tracer "python". */
		if (j->cut->python)
			python_cut_load(j->cut->python);
		cpu_plane_build(j->cut, j->symbols, b);
		xs_finish(b, &j->bytes);
		xs_builder_free(b);
	}
	symbols_end(j->symbols);
	(void)symbols_missing(j->symbols, &j->missing);
}

static void explain_missing(char *out, size_t size, const struct err *missing)
{
	snprintf(out, size, "some functions have no name: %.220s", missing->msg);
}

static void finish_run(struct cpu_job *j)
{
	struct tracer_run *run = j->run;
	struct tracer_part *part;

	if (!run)
		return;
	part = tracer_run_add_part(run);
	part->base = PART_RAW;
	part->bytes = j->bytes;
	run->lost += j->unread;
	if (run->result == RUN_OK && !run->detail[0] && j->missing.code)
		explain_missing(run->detail, sizeof(run->detail), &j->missing);
	j->bytes = (struct buf)BUF_INIT;
	run->arg = NULL;
	run->done(run);
}

static void start_next(struct tracer_cpu *t);

static void job_done(void *arg)
{
	struct cpu_job *j = arg;
	struct tracer_cpu *t = j->owner;

	if (!t) {
		symbols_free(j->symbols);
		job_free(j);
		return;
	}
	t->symbols = j->symbols;
	t->missing = j->missing;
	t->running = NULL;
	if (j->questions)
		cpu_window_apply_answers(t->window, j->questions);
	start_next(t);
	finish_run(j);
	job_free(j);
}

static void start_next(struct tracer_cpu *t)
{
	struct cpu_job *j = t->waiting;

	if (!j || t->running)
		return;
	t->waiting = j->next;
	if (!t->waiting)
		t->waiting_end = &t->waiting;
	t->running = j;
	j->symbols = t->symbols;
	t->symbols = NULL;
	loop_work(t->loop, job_run, job_done, j);
}

static void job_enqueue(struct tracer_cpu *t, struct cpu_job *j)
{
	*t->waiting_end = j;
	t->waiting_end = &j->next;
	start_next(t);
}

static struct cpu_job *job_new(struct tracer_cpu *t, const struct cpu_job *what)
{
	struct cpu_job *j = xmalloc(sizeof(*j));

	*j = *what;
	j->owner = t;
	if (j->run)
		j->run->arg = j;
	return j;
}

/* ---- recording ---- */

static void feed(void *window, int cpu, const void *bytes, size_t len)
{
	cpu_window_feed(window, (size_t)cpu, bytes, len);
}

static void drain(struct tracer_cpu *t, int64_t until_raw_ns)
{
	perf_rings_take(&t->rings, feed, t->window);
	cpu_window_flush(t->window, until_raw_ns);
}

static void request_names(struct tracer_cpu *t)
{
	struct cpu_questions *q = t->running ? NULL : cpu_window_take_questions(t->window);

	if (q)
		job_enqueue(t, job_new(t, &(struct cpu_job){ .questions = q }));
}

static void on_drain(void *arg)
{
	struct tracer_cpu *t = arg;

	loop_timer_each(t->loop, &t->drain_timer, DRAIN_EVERY_NS, on_drain, t);
	drain(t, now_raw_ns() - SETTLE_NS);
	request_names(t);
}

static void on_ring(void *arg)
{
	drain(arg, now_raw_ns() - SETTLE_NS);
}

/* ---- opening ---- */

static void open_rings(struct tracer_cpu *t)
{
	const struct perf_source source = { .hz = t->hz, .cgroup_fd = -1 };
	struct tracer_state *s = &t->state;
	struct err e;

	if (!perf_rings_open(&t->rings, &source, &s->errno_value, &e))
		return;
	s->health = t->rings.n ? TRACER_DEGRADED : TRACER_OFF;
	t->off_reason = e.code == ERR_DENIED ? REASON_NO_PERMISSION : REASON_UNSUPPORTED;
	perf_rings_explain(&t->rings, &e, s->reason, sizeof(s->reason));
}

static void start(struct tracer_cpu *t, const struct ring_limits *limits,
		  const struct file_keeper *files)
{
	t->window = cpu_window_new(&(struct cpu_window_conf){
		.ring = *limits,
		.max_nodes = NODES_MAX,
		.max_images = IMAGES_MAX,
		.now_raw_ns = now_raw_ns(),
	});
	t->symbols = symbols_new(files);
	perf_rings_start(&t->rings, t->loop, on_ring, t);
	loop_timer_each(t->loop, &t->drain_timer, DRAIN_EVERY_NS, on_drain, t);
}

static int cpu_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct cpu_conf *conf = env->conf;
	struct tracer_cpu *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_cpu_ops;
	t->loop = env->loop;
	t->pods = env->pods;
	t->python = env->python;
	t->waiting_end = &t->waiting;
	t->hz = conf->cpu_hz;
	t->period_ns = NS_PER_S / t->hz;
	t->off_reason = REASON_UNSUPPORTED;
	open_rings(t);
	if (t->rings.n)
		start(t, &env->ring, env->files);
	else
		t->state.health = TRACER_OFF;
	*out = &t->base;
	return 0;
}

static void cpu_state(const struct tracer *t, struct tracer_state *out)
{
	const struct tracer_cpu *cpu = to_cpu(t);

	*out = cpu->state;
	if (out->health != TRACER_OK || !cpu->missing.code)
		return;
	out->health = TRACER_DEGRADED;
	out->errno_value = cpu->missing.code == ERR_TIMEOUT ? ETIMEDOUT : EACCES;
	explain_missing(out->reason, sizeof(out->reason), &cpu->missing);
}

/* ---- runs ---- */

static int64_t cpu_begin(const struct tracer *tracer)
{
	const struct tracer_cpu *t = to_cpu(tracer);

	return t->window ? ring_begin(cpu_window_ring(t->window)) : INT64_MAX;
}

static int cpu_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_cpu *t = to_cpu(tracer);

	(void)e;
	if (t->window)
		ring_run_arm(cpu_window_ring(t->window), run);
	return 0;
}

/* The kernel reports dropped records together with the next record that it keeps. */
static struct ring_cut *cut_ring(const struct tracer_cpu *t, struct tracer_run *run)
{
	struct ring *ring = cpu_window_ring(t->window);
	struct ring_cut *records = ring_run_cut(ring, run, "CPU samples", t->period_ns);

	if (t->state.health == TRACER_DEGRADED)
		tracer_run_set_result(run, RUN_DEGRADED, t->off_reason, "%s", t->state.reason);
	run->lost = ring_lost(ring, run->t0_raw_ns, run->t1_raw_ns + DRAIN_EVERY_NS);
	if (run->lost && run->result == RUN_OK)
		snprintf(run->detail, sizeof(run->detail),
			 "the kernel dropped %llu records: the agent got too little CPU time",
			 (unsigned long long)run->lost);
	return records;
}

/* The ring of Python samples now has those of the window, and of a little around it: cuts them. */
static void on_python_current(void *arg)
{
	struct cpu_job *j = arg, **at = &j->owner->expecting;
	struct tracer_cpu *t = j->owner;

	while (*at != j)
		at = &(*at)->next;
	*at = j->next;
	j->next = NULL;
	j->cut->python = python_cut_new(t->python, ring_cut_new(python_ring(t->python),
								j->cut->t0_raw_ns - NS_PER_S,
								j->cut->t1_raw_ns + NS_PER_S));
	job_enqueue(t, j);
}

/* The job begins when it has its Python samples, if the capture wants them and there are any. */
static void expect_python(struct tracer_cpu *t, struct cpu_job *j)
{
	if (!t->python || !python_ring(t->python) ||
	    !tracer_run_setting(j->run, &tracer_cpu_ops, "python")) {
		job_enqueue(t, j);
		return;
	}
	j->next = t->expecting;
	t->expecting = j;
	python_when_current(t->python, tracer_run_half_time(j->run), on_python_current, j);
}

static void cpu_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_cpu *t = to_cpu(tracer);
	struct cpu_cut *cut;

	if (t->state.health == TRACER_OFF) {
		tracer_run_set_result(run, RUN_OFF, t->off_reason, "%s", t->state.reason);
		run->done(run);
		return;
	}
	drain(t, INT64_MAX);
	cut = cpu_window_cut(t->window, run->t0_raw_ns, cut_ring(t, run));
	cut->t0_raw_ns = run->t0_raw_ns;
	cut->t1_raw_ns = run->t1_raw_ns;
	cut->period_ns = t->period_ns;
	cut->pods = local_pods_view(t->pods);
	cut->max_depth = (size_t)tracer_run_setting(run, &tracer_cpu_ops, "max_depth");
	expect_python(t, job_new(t, &(struct cpu_job){ .run = run, .cut = cut }));
}

/* The job goes on without its run, since a worker may be running it already. */
static void cpu_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_cpu *t = to_cpu(tracer);
	struct cpu_job *j = run->arg;

	if (t->window)
		ring_run_cancel(cpu_window_ring(t->window), run);
	if (j)
		j->run = NULL;
	run->arg = NULL;
}

/* The cost is in following all processes, not in taking samples: a lower rate would cost as much. So the only
 * step stops the recording. */
static bool cpu_limit(struct tracer *tracer, unsigned int step)
{
	struct tracer_cpu *t = to_cpu(tracer);

	if (!t->window || step > 1)
		return false;
	drain(t, now_raw_ns() - SETTLE_NS);
	perf_rings_pause(&t->rings, step != 0);
	return true;
}

static void cpu_free(struct tracer *tracer)
{
	struct tracer_cpu *t = to_cpu(tracer);

	loop_timer_cancel(t->loop, &t->drain_timer);
	perf_rings_close(&t->rings);
	if (t->running) {
		t->running->owner = NULL;
		/* the agent does not exit before the job has ended */
		symbols_stop(t->running->symbols);
	}
	while (t->expecting) {
		struct cpu_job *j = t->expecting;

		t->expecting = j->next;
		python_forget(t->python, j);
		job_free(j);
	}
	while (t->waiting) {
		struct cpu_job *j = t->waiting;

		t->waiting = j->next;
		job_free(j);
	}
	symbols_free(t->symbols);
	cpu_window_free(t->window);
	free(t);
}

const struct tracer_ops tracer_cpu_ops = {
	.name = "cpu",
	.host_level = 2,
	.conf = conf_fields,
	.conf_size = sizeof(struct cpu_conf),
	.settings = settings,
	.open = cpu_open,
	.state = cpu_state,
	.begin_raw_ns = cpu_begin,
	.arm = cpu_arm,
	.gather = cpu_gather,
	.cancel = cpu_cancel,
	.limit = cpu_limit,
	.free = cpu_free,
};
