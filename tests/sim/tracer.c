/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only tracer of these agents. Bursts happen everywhere at the same true instants; it has them all,
 * stamped with its host's raw clock, as a sampler's ring would.
 */
#include "agent/tracer/tracer.h"

#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/random.h"
#include "tests/sim/burst.h"
#include "tests/sim/sim.h"
#include "xspace/xspace.h"

struct sim_tracer {
	struct tracer base;
	struct loop *loop;
	struct sim_host *host;
	int64_t from_ns; /* true time: nothing is known from before it was opened */
};

/* Alive as long as its run or its event is. */
struct job {
	struct sim_tracer *tracer;
	struct tracer_run *run;
	struct loop_timer timer;
};

int64_t burst_ns(int64_t k)
{
	uint64_t x = (uint64_t)k * UINT64_C(0x9e3779b97f4a7c15);

	return k * BURST_EVERY_NS + (int64_t)((x >> 33) % (BURST_EVERY_NS / 2));
}

static int sim_tracer_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	struct sim_tracer *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &sim_tracer_ops;
	t->loop = env->loop;
	t->host = sim.host;
	t->from_ns = sim_here_ns();
	*out = &t->base;
	return 0;
}

static void sim_tracer_state(const struct tracer *t, struct tracer_state *out)
{
	(void)t;
	*out = (struct tracer_state){ .health = TRACER_OK };
}

/* A line takes the time at its beginning; the second one has to begin where its events are. */
static void add_bursts(struct xs_builder *b, const struct sim_tracer *t,
		       const struct tracer_run *run)
{
	int64_t middle = run->t0_raw_ns + (run->t1_raw_ns - run->t0_raw_ns) / 2;
	int64_t last = sim.now_ns / BURST_EVERY_NS, base = run->t0_raw_ns;
	bool second = false;

	xs_line(b, 1, "first half", base);
	for (int64_t k = last - BURSTS_KEPT > 0 ? last - BURSTS_KEPT : 0; k <= last; k++) {
		int64_t at = host_raw_ns(t->host, burst_ns(k));

		if (burst_ns(k) < t->from_ns || burst_ns(k) > sim.now_ns || at < run->t0_raw_ns ||
		    at >= run->t1_raw_ns || host_is_asleep(t->host, burst_ns(k)))
			continue;
		if (at >= middle && !second) {
			second = true;
			base = middle;
			xs_line(b, 2, "second half", base);
		}
		xs_event(b, "burst", (at - base) * 1000, 0);
		xs_stat_int(b, "k", k);
	}
}

static void add_ballast(struct xs_builder *b, size_t len)
{
	uint8_t *bytes = xmalloc(len + 1);

	random_bytes(bytes, len);
	xs_stat_bytes(b, "ballast", bytes, len);
	free(bytes);
}

static void give(void *arg)
{
	struct job *job = arg;
	struct tracer_run *run = job->run;
	struct tracer_part *part = tracer_run_add_part(run);
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 0, "/host:CPU");
	add_ballast(b, (size_t)rng_scale(&sim.rng, 16, rng_chance(&sim.rng, 0.1) ? 3 << 20 : 4096));
	add_bursts(b, job->tracer, run);
	xs_finish(b, &part->bytes);
	xs_builder_free(b);
	if (run->t0_raw_ns < host_raw_ns(job->tracer->host, job->tracer->from_ns))
		tracer_run_set_result(run, RUN_DEGRADED, "window-cut",
				      "the agent was not there yet");
	part->base = PART_RAW;
	snprintf(part->label, sizeof(part->label), "sim");
	free(job);
	run->arg = NULL;
	run->done(run);
}

static void sim_tracer_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct sim_tracer *t = (struct sim_tracer *)tracer;
	struct job *job = xcalloc(1, sizeof(*job));

	job->tracer = t;
	job->run = run;
	run->arg = job;
	loop_timer_in(t->loop, &job->timer, rng_scale(&sim.rng, NS_PER_MS, 300 * NS_PER_MS), give,
		      job);
}

static void sim_tracer_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct job *job = run->arg;

	if (job)
		loop_timer_cancel(((struct sim_tracer *)tracer)->loop, &job->timer);
	free(job);
	run->arg = NULL;
}

static void sim_tracer_free(struct tracer *t)
{
	free(t);
}

const struct tracer_ops sim_tracer_ops = {
	.name = "sim",
	.open = sim_tracer_open,
	.state = sim_tracer_state,
	.gather = sim_tracer_gather,
	.cancel = sim_tracer_cancel,
	.free = sim_tracer_free,
};

const struct tracer_ops *const sim_tracers[] = { &sim_tracer_ops, NULL };
