/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracers of these agents. "sim": bursts happen everywhere at the same true instants; it has them all,
 * stamped with its host's raw clock, as a sampler's ring would. "profiler": serves one capture at a time.
 */
#include "agent/tracer/tracer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/random.h"
#include "proto/reasons.h"
#include "tests/sim/burst.h"
#include "tests/sim/job.h"
#include "tests/sim/sim.h"
#include "xspace/xspace.h"

struct sim_tracer {
	struct tracer base;
	struct loop *loop;
	struct sim_host *host;
	int64_t from_ns; /* true time: nothing is known from before it was opened */
	TAILQ_ENTRY(sim_tracer) entry; /* of "sim" */
	struct job_process *job; /* of "sim" */
	struct tracer_run *user; /* of "profiler": who has it; or NULL */
};

#define SMALL_BALLAST 65536
#define BIG_BYTES     (2500 << 10) /* some chunks of an upload */
#define CALL_AHEAD_NS (100 * NS_PER_MS)

/* Alive as long as its run or its event is. */
struct use {
	struct sim_tracer *tracer;
	struct tracer_run *run;
	int64_t begin_ns; /* of "sim": the ring's, when the run was armed */
	bool is_past; /* of "profiler": the window was over when the run was armed */
	struct loop_timer timer;
};

/* Without a row in the seeds that do not draw it: a Hello that lists it takes another time. */
static struct setting settings[2];

void (*sim_tracer_armed)(const struct sim_host *h, const char *session);

void sim_tracer_set_depth(bool has_depth)
{
	settings[0] = has_depth ? (struct setting){ "depth", SETTING_INT, 0, 99, SIM_DEPTH, "none" }
				: (struct setting){ 0 };
}

static bool is_marked(const struct sim_tracer *t, const struct tracer_run *run, enum sim_mark mark)
{
	return t->host->mark == mark && !strcmp(t->host->marked, run->session);
}

static TAILQ_HEAD(, sim_tracer) rings = TAILQ_HEAD_INITIALIZER(rings);

int64_t burst_ns(int64_t k)
{
	uint64_t x = (uint64_t)k * UINT64_C(0x9e3779b97f4a7c15);

	return k * BURST_EVERY_NS + (int64_t)((x >> 33) % (BURST_EVERY_NS / 2));
}

static struct sim_tracer *tracer_new(const struct tracer_ops *ops, const struct tracer_env *env)
{
	struct sim_tracer *t = xcalloc(1, sizeof(*t));

	t->base.ops = ops;
	t->loop = env->loop;
	t->host = sim.host;
	t->from_ns = sim_here_ns();
	return t;
}

static int sim_tracer_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	struct sim_tracer *t = tracer_new(&sim_tracer_ops, env);

	(void)e;
	t->job = env->marks ? job_process_new(env->loop, env->marks) : NULL;
	TAILQ_INSERT_HEAD(&rings, t, entry);
	*out = &t->base;
	return 0;
}

static int64_t ring_begin_ns(const struct sim_tracer *t)
{
	int64_t oldest_ns = sim.now_ns - RING_NS;

	return t->from_ns > oldest_ns ? t->from_ns : oldest_ns;
}

int64_t sim_ring_begin_ns(const struct sim_host *h)
{
	struct sim_tracer *t;

	TAILQ_FOREACH (t, &rings, entry) {
		if (t->host == h)
			return ring_begin_ns(t);
	}
	return INT64_MAX;
}

static int64_t sim_tracer_begin_raw_ns(const struct tracer *t)
{
	const struct sim_tracer *st = (const struct sim_tracer *)t;

	return host_raw_ns(st->host, ring_begin_ns(st));
}

static void sim_tracer_state(const struct tracer *t, struct tracer_state *out)
{
	(void)t;
	*out = (struct tracer_state){ .health = TRACER_OK };
}

/* The first burst that is kept and not before the window. */
static int64_t first_burst(const struct sim_host *h, int64_t t0_raw_ns, int64_t last)
{
	int64_t low = last - BURSTS_KEPT > 0 ? last - BURSTS_KEPT : 0, high = last + 1;

	while (low < high) {
		int64_t k = low + (high - low) / 2;

		if (host_raw_ns(h, burst_ns(k)) < t0_raw_ns)
			low = k + 1;
		else
			high = k;
	}
	return low;
}

/* A line takes the time at its beginning; the second one has to begin where its events are. */
static void add_bursts(struct xs_builder *b, const struct sim_tracer *t,
		       const struct tracer_run *run, int64_t begin_ns)
{
	int64_t middle = run->t0_raw_ns + (run->t1_raw_ns - run->t0_raw_ns) / 2;
	int64_t last = sim.now_ns / BURST_EVERY_NS, base = run->t0_raw_ns;
	bool second = false;

	xs_line(b, 1, "first half", base);
	for (int64_t k = first_burst(t->host, run->t0_raw_ns, last); k <= last; k++) {
		int64_t at = host_raw_ns(t->host, burst_ns(k));

		if (burst_ns(k) > sim.now_ns || at >= run->t1_raw_ns)
			break;
		if (burst_ns(k) < begin_ns || host_is_asleep(t->host, burst_ns(k)))
			continue;
		if (at >= middle && !second) {
			second = true;
			base = middle;
			xs_line(b, 2, "second half", base);
		}
		xs_event(b, "burst", (at - base) * 1000, 0);
		xs_stat_int(b, "k", k);
		if (settings[0].name)
			xs_stat_int(b, "depth", tracer_run_setting(run, &sim_tracer_ops, "depth"));
	}
}

static void add_ballast(struct xs_builder *b, size_t len)
{
	uint8_t *bytes = xmalloc(len + 1);

	random_bytes(bytes, len);
	xs_stat_bytes(b, "ballast", bytes, len);
	free(bytes);
}

size_t ballast_limit; /* of a plane */

static size_t ballast(void)
{
	size_t len = (size_t)rng_scale(&sim.rng, 16, rng_chance(&sim.rng, 0.1) ? 3 << 20 : 4096);

	return len < ballast_limit ? len : ballast_limit;
}

/* A plane is never split: several large ones make several files. */
static void add_planes(struct xs_builder *b, const struct sim_tracer *t,
		       const struct tracer_run *run, int64_t begin_ns)
{
	int64_t more = ballast_limit < SMALL_BALLAST ? rng_range(&sim.rng, 0, 5) : 0;
	bool is_big = is_marked(t, run, SIM_MARK_BIG);
	char name[32];

	if (is_big && ballast_limit < SMALL_BALLAST)
		more = BIG_BYTES / (int64_t)ballast_limit;
	xs_plane(b, 0, "/host:CPU");
	add_ballast(b, is_big && !more ? BIG_BYTES : ballast() / 2);
	add_bursts(b, t, run, begin_ns);
	for (int64_t i = 1; i <= more; i++) {
		snprintf(name, sizeof(name), "/host:more %d", (int)i);
		xs_plane(b, i, name);
		add_ballast(b, ballast_limit);
	}
}

static void give(void *arg)
{
	struct use *use = arg;
	struct tracer_run *run = use->run;
	struct tracer_part *part = tracer_run_add_part(run);
	struct xs_builder *b = xs_builder_new();

	add_planes(b, use->tracer, run, use->begin_ns);
	xs_finish(b, &part->bytes);
	xs_builder_free(b);
	if (run->t0_raw_ns < host_raw_ns(use->tracer->host, use->begin_ns))
		tracer_run_set_result(run, RUN_DEGRADED, "window-cut",
				      "the ring does not reach back so far");
	else if (is_marked(use->tracer, run, SIM_MARK_SPOILT))
		tracer_run_set_result(run, RUN_DEGRADED, REASON_TRACER_FAILED, "it was spoilt");
	part->base = PART_RAW;
	snprintf(part->label, sizeof(part->label), "sim");
	free(use);
	run->arg = NULL;
	run->done(run);
}

static struct use *use_new(struct sim_tracer *t, struct tracer_run *run)
{
	struct use *use = xcalloc(1, sizeof(*use));

	use->tracer = t;
	use->run = run;
	run->arg = use;
	return use;
}

static void give_later(struct use *use, loop_fn fn)
{
	loop_timer_in(use->tracer->loop, &use->timer,
		      rng_scale(&sim.rng, NS_PER_MS, 300 * NS_PER_MS), fn, use);
}

/* From now on the ring keeps what the run needs. */
static int sim_tracer_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct sim_tracer *t = (struct sim_tracer *)tracer;

	(void)e;
	if (sim_tracer_armed)
		sim_tracer_armed(t->host, run->session);
	use_new(t, run)->begin_ns = ring_begin_ns(t);
	return 0;
}

static void sim_tracer_gather(struct tracer *tracer, struct tracer_run *run)
{
	(void)tracer;
	give_later(run->arg, give);
}

static void sim_tracer_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct use *use = run->arg;

	if (use)
		loop_timer_cancel(((struct sim_tracer *)tracer)->loop, &use->timer);
	free(use);
	run->arg = NULL;
}

static void sim_tracer_free(struct tracer *t)
{
	job_process_free(((struct sim_tracer *)t)->job);
	TAILQ_REMOVE(&rings, (struct sim_tracer *)t, entry);
	free(t);
}

const struct tracer_ops sim_tracer_ops = {
	.name = "sim",
	.settings = settings,
	.open = sim_tracer_open,
	.state = sim_tracer_state,
	.begin_raw_ns = sim_tracer_begin_raw_ns,
	.arm = sim_tracer_arm,
	.gather = sim_tracer_gather,
	.cancel = sim_tracer_cancel,
	.free = sim_tracer_free,
};

/* ---- profiler ---- */

static const struct tracer_ops profiler_ops;

static int profiler_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	(void)e;
	*out = &tracer_new(&profiler_ops, env)->base;
	return 0;
}

/* As a framework's profiler: the call comes just before the window, and is refused if there is another one. */
static void profiler_take(void *arg)
{
	struct use *use = arg;
	struct sim_tracer *t = use->tracer;

	if (t->user)
		tracer_run_set_result(use->run, RUN_FAILED, REASON_PROFILER_BUSY, "%s has it",
				      t->user->session);
	else
		t->user = use->run;
}

static int profiler_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct sim_tracer *t = (struct sim_tracer *)tracer;
	struct use *use = use_new(t, run);
	int64_t until_ns = run->t0_raw_ns - now_raw_ns() - CALL_AHEAD_NS;

	(void)e;
	use->is_past = run->t1_raw_ns <= now_raw_ns();
	if (use->is_past) /* a snapshot: it does not disturb the one that records */
		return 0;
	if (until_ns > 0)
		loop_timer_in(t->loop, &use->timer, until_ns, profiler_take, use);
	else
		profiler_take(use);
	return 0;
}

static void profiler_leave(struct sim_tracer *t, const struct tracer_run *run)
{
	if (t->user == run)
		t->user = NULL;
}

static void profiler_give(void *arg)
{
	struct use *use = arg;
	struct tracer_run *run = use->run;
	struct sim_tracer *t = use->tracer;
	struct xs_builder *b = xs_builder_new();

	if (use->is_past || t->user == run) {
		xs_plane(b, 0, "/device:sim");
		xs_line(b, 1, "ops", run->t0_raw_ns);
		xs_finish(b, &tracer_run_add_part(run)->bytes);
	}
	xs_builder_free(b);
	profiler_leave(t, run);
	free(use);
	run->arg = NULL;
	run->done(run);
}

static void profiler_gather(struct tracer *tracer, struct tracer_run *run)
{
	(void)tracer;
	give_later(run->arg, profiler_give);
}

static void profiler_cancel(struct tracer *tracer, struct tracer_run *run)
{
	profiler_leave((struct sim_tracer *)tracer, run);
	sim_tracer_cancel(tracer, run);
}

static void profiler_free(struct tracer *t)
{
	free(t);
}

static const struct tracer_ops profiler_ops = {
	.name = "profiler",
	.open = profiler_open,
	.state = sim_tracer_state,
	.arm = profiler_arm,
	.gather = profiler_gather,
	.cancel = profiler_cancel,
	.free = profiler_free,
};

const struct tracer_ops *const sim_tracers[] = { &sim_tracer_ops, &profiler_ops, NULL };
