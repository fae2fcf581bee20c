/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "python": what the Python programs of this host do, sampled from outside (agent/python/). It
 * always samples --python-hz times a second, and more often while a capture asks for more.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pods/local_pods.h"
#include "agent/pods/pod_view.h"
#include "agent/python/python.h"
#include "agent/python/walk.h"
#include "agent/tracer/python/plane.h"
#include "agent/tracer/ring_run.h"
#include "agent/tracer/tracer.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define HZ_MAX 1000

TRACER_DECLARE(python);

struct python_conf {
	int python_hz;
};

static const struct conf_field conf_fields[] = {
	CONF_RANGE(struct python_conf, python_hz, "19", 0, HZ_MAX,
		   "samples per second of each thread of Python programs, at all times; 0 = in "
		   "captures only"),
	{ 0 }
};

static const struct setting settings[] = {
	{ "hz", SETTING_INT, 1, HZ_MAX, 99,
	  "samples per second of each thread, from the moment the host is armed" },
	{ "max_depth", SETTING_INT, 1, PYTHON_FRAMES_MAX, PYTHON_FRAMES_MAX,
	  "frames of each stack in the file, counted from the outermost" },
	{ 0 }
};

/* A capture that asks for a rate. */
struct rate {
	const struct tracer_run *run;
	int hz;
};

struct tracer_python {
	struct tracer base;
	struct loop *loop;
	struct python *python;
	const struct local_pods *pods; /* NULL = none */
	int hz; /* the rate without captures */
	unsigned int step; /* of python_limit() */
	struct rate *rates;
	size_t n_rates;
};

struct job {
	struct tracer_python *owner; /* valid until the job has its cut */
	struct tracer_run *run; /* loop's thread only; NULL if cancelled */
	struct python_cut *cut; /* NULL: it waits until the ring is current */
	struct python_window window;
	struct python_plane_counts counts;
	struct buf bytes;
	uint64_t unread;
};

static struct tracer_python *to_python(const struct tracer *t)
{
	assert(t->ops == &tracer_python_ops);
	return (struct tracer_python *)t;
}

/* ---- the rate ---- */

static void set_rate(struct tracer_python *t)
{
	int hz = t->hz;

	for (size_t i = 0; i < t->n_rates; i++)
		if (t->rates[i].hz > hz)
			hz = t->rates[i].hz;
	python_set_hz(t->python, hz >> t->step);
}

static void remove_rate(struct tracer_python *t, const struct tracer_run *run)
{
	for (size_t i = 0; i < t->n_rates; i++)
		if (t->rates[i].run == run) {
			t->rates[i] = t->rates[--t->n_rates];
			break;
		}
	set_rate(t);
}

/* ---- the tracer ---- */

static int python_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct python_conf *conf = env->conf;
	struct tracer_python *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_python_ops;
	t->loop = env->loop;
	t->python = env->python;
	t->pods = env->pods;
	t->hz = conf->python_hz;
	python_start(t->python, t->hz);
	*out = &t->base;
	return 0;
}

/* Sets the typed reason of a run and its sentence; the reason is "" if nothing is missing. */
static const char *judge(const struct tracer_python *t, struct tracer_state *state)
{
	struct python_health h;

	python_get_health(t->python, &h);
	*state = (struct tracer_state){ .errno_value = h.errno_value };
	if (h.errno_value) {
		state->health = TRACER_OFF;
		snprintf(state->reason, sizeof(state->reason),
			 "process_vm_readv: %s: let seccomp pass it, in a kernel with "
			 "CONFIG_CROSS_MEMORY_ATTACH",
			 strerror(h.errno_value));
		return REASON_UNSUPPORTED;
	}
	if (h.denied || h.is_own_only) {
		state->health = TRACER_DEGRADED;
		state->errno_value = EPERM;
		if (h.denied)
			snprintf(state->reason, sizeof(state->reason),
				 "%zu Python processes cannot be read: %.190s", h.denied,
				 h.denied_why);
		else
			snprintf(state->reason, sizeof(state->reason),
				 "only programs of this user can be read: grant CAP_SYS_PTRACE");
		return REASON_NO_PERMISSION;
	}
	if (h.unsupported) {
		state->health = TRACER_DEGRADED;
		snprintf(state->reason, sizeof(state->reason),
			 "%zu Python processes cannot be read: %.190s", h.unsupported,
			 h.unsupported_why);
		return REASON_UNSUPPORTED;
	}
	if (h.left_out) {
		state->health = TRACER_DEGRADED;
		snprintf(state->reason, sizeof(state->reason),
			 "%zu Python processes are left out: there are more than are sampled at "
			 "once, or more of one user",
			 h.left_out);
		return REASON_UNSUPPORTED;
	}
	if (h.crowded) {
		state->health = TRACER_DEGRADED;
		snprintf(state->reason, sizeof(state->reason),
			 "%zu Python processes have more threads than are sampled of one: those "
			 "that began first are left out",
			 h.crowded);
		return REASON_UNSUPPORTED;
	}
	return "";
}

static void python_state(const struct tracer *tracer, struct tracer_state *out)
{
	judge(to_python(tracer), out);
}

static int64_t python_begin(const struct tracer *tracer)
{
	const struct tracer_python *t = to_python(tracer);

	return t->hz ? ring_begin(python_ring(t->python)) : INT64_MAX;
}

static int python_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_python *t = to_python(tracer);

	(void)e;
	ring_run_arm(python_ring(t->python), run);
	/* If the window is over, a higher rate from now on would not change it. */
	if (run->t1_raw_ns <= now_raw_ns())
		return 0;
	t->rates = xrealloc(t->rates, (t->n_rates + 1) * sizeof(*t->rates));
	t->rates[t->n_rates++] = (struct rate){
		.run = run,
		.hz = (int)tracer_run_setting(run, &tracer_python_ops, "hz"),
	};
	set_rate(t);
	return 0;
}

/* ---- gathering ---- */

/* On a worker. */
static void build(void *arg)
{
	struct job *j = arg;
	struct xs_builder *b = xs_builder_new();

	j->unread = python_cut_load(j->cut);
	python_planes_build(j->cut, &j->window, b, &j->counts);
	xs_finish(b, &j->bytes);
	xs_builder_free(b);
}

static void job_free(struct job *j)
{
	buf_release(&j->bytes);
	python_cut_free(j->cut);
	pod_view_release(j->window.pods);
	free(j);
}

/* As note_unread(). */
static void note_unsampled(struct tracer_run *run, const struct python_plane_counts *counts)
{
	char text[200];

	if (!counts->unsampled || run->result != RUN_OK)
		return;
	snprintf(text, sizeof(text),
		 "%zu Python processes have no sample in the window: pid %u is sampled every %.1f "
		 "s, as its samples cost much; make the window longer",
		 counts->unsampled, counts->unsampled_pid, counts->unsampled_rare_us / 1e6);
	if (run->is_named)
		tracer_run_set_result(run, RUN_DEGRADED, REASON_WINDOW_CUT, "%s", text);
	else
		snprintf(run->detail, sizeof(run->detail), "%s", text);
}

static void on_built(void *arg)
{
	struct job *j = arg;
	struct tracer_run *run = j->run;

	if (run) {
		struct tracer_part *part = tracer_run_add_part(run);

		part->base = PART_RAW;
		part->bytes = j->bytes;
		j->bytes = (struct buf)BUF_INIT;
		run->lost += j->unread;
		run->arg = NULL;
		note_unsampled(run, &j->counts);
		if (j->counts.torn && !run->detail[0])
			snprintf(run->detail, sizeof(run->detail),
				 "%llu of %llu samples are left out: the stack changed while it "
				 "was copied",
				 (unsigned long long)j->counts.torn,
				 (unsigned long long)j->counts.samples);
	}
	job_free(j);
	if (run)
		run->done(run);
}

/* Programs that cannot be read make the run degraded if the capture names this tracer; else they are only a
 * note. */
static void note_unread(struct tracer_run *run, const struct tracer_state *state,
			const char *reason)
{
	if (run->result != RUN_OK || state->health == TRACER_OK)
		return;
	if (run->is_named)
		tracer_run_set_result(run, RUN_DEGRADED, reason, "%s", state->reason);
	else
		snprintf(run->detail, sizeof(run->detail), "%s", state->reason);
}

static int64_t period_ns(const struct tracer_python *t)
{
	return t->hz ? NS_PER_S / t->hz : NS_PER_S;
}

/* All samples of the window are in the ring. */
static void on_current(void *arg)
{
	struct job *j = arg;
	struct tracer_python *t = j->owner;
	struct tracer_run *run = j->run;
	struct tracer_state state;
	const char *reason = judge(t, &state);
	struct ring_cut *records = ring_run_cut(python_ring(t->python), run, "Python samples",
						period_ns(t));

	remove_rate(t, run);
	note_unread(run, &state, reason);
	j->cut = python_cut_new(t->python, records);
	loop_work(t->loop, build, on_built, j);
}

static void python_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_python *t = to_python(tracer);
	struct tracer_state state;
	const char *reason = judge(t, &state);
	struct job *j;

	if (state.health == TRACER_OFF) {
		ring_run_cancel(python_ring(t->python), run);
		remove_rate(t, run);
		tracer_run_set_result(run, RUN_OFF, reason, "%s", state.reason);
		run->done(run);
		return;
	}
	j = xcalloc(1, sizeof(*j));
	j->owner = t;
	j->run = run;
	j->window = (struct python_window){
		.t0_raw_ns = run->t0_raw_ns,
		.t1_raw_ns = run->t1_raw_ns,
		.pods = local_pods_view(t->pods),
		.max_depth = (size_t)tracer_run_setting(run, &tracer_python_ops, "max_depth"),
	};
	run->arg = j;
	python_when_current(t->python, tracer_run_half_time(run), on_current, j);
}

/* A job that has its cut goes on without its run: a worker may be busy with it. */
static void python_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_python *t = to_python(tracer);
	struct job *j = run->arg;

	ring_run_cancel(python_ring(t->python), run);
	remove_rate(t, run);
	if (j && !j->cut) {
		python_forget(t->python, j);
		job_free(j);
	} else if (j) {
		j->run = NULL;
	}
	run->arg = NULL;
}

/* Each step halves all rates; after the last one, only captures whose own rate is high enough are sampled. */
static bool python_limit(struct tracer *tracer, unsigned int step)
{
	struct tracer_python *t = to_python(tracer);

	if (step && !(t->hz >> (step - 1)))
		return false;
	t->step = step;
	set_rate(t);
	return true;
}

static void python_close(struct tracer *tracer)
{
	struct tracer_python *t = to_python(tracer);

	free(t->rates);
	free(t);
}

const struct tracer_ops tracer_python_ops = {
	.name = "python",
	.host_level = 2,
	.other_level = LEVEL_PYTHON,
	.conf = conf_fields,
	.conf_size = sizeof(struct python_conf),
	.settings = settings,
	.open = python_open,
	.state = python_state,
	.begin_raw_ns = python_begin,
	.arm = python_arm,
	.gather = python_gather,
	.cancel = python_cancel,
	.limit = python_limit,
	.free = python_close,
};
