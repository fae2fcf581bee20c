/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "profiler": recordings of JAX, TensorFlow and torch_xla about themselves. Each process serves
 * tensorflow.ProfilerService at an address that is configured, or discovered on this host.
 */
#include "agent/tracer/profiler/tracer_profiler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/tracer/profiler/continuous.h"
#include "agent/tracer/profiler/discover.h"
#include "agent/tracer/profiler/jobs.h"
#include "agent/tracer/profiler/run.h"
#include "agent/tracer/profiler/lane.h"
#include "agent/tracer/profiler/sweep.h"
#include "agent/tracer/profiler/targets.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

TRACER_DECLARE(profiler);

static const struct conf_field conf_fields[] = {
	CONF(struct profiler_conf, profiler, NULL,
	     "host:port of a framework's profiler server; may be repeated"),
	CONF(struct profiler_conf, discover, "true",
	     "find profiler servers among the listening sockets of this host"),
	CONF(struct profiler_conf, continuous, "false",
	     "keep frameworks recording all the time, where they support it, so that snapshots "
	     "have their events"),
	CONF_RANGE(struct profiler_conf, profiler_limit_bytes, "512M", 0, LIMIT_RESPONSE_BYTES,
		   "largest trace that a framework's profiler may reply with: it passes through "
		   "the agent's memory; 0 = 2 GB, the most that gRPC allows"),
	{ 0 }
};

static struct tracer_profiler *to_profiler(struct tracer *t)
{
	return (struct tracer_profiler *)t;
}

/* ---- runs ---- */

static int profiler_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	(void)e;
	profiler_run_start(to_profiler(tracer), run);
	return 0;
}

static int64_t profiler_lead_ns(const struct tracer *tracer)
{
	return ((const struct tracer_profiler *)tracer)->continuous ? 2 * PROFILER_STOP_NS : 0;
}

static void profiler_stop(struct tracer *tracer, struct tracer_run *run)
{
	(void)tracer;
	profiler_run_stop(run->arg);
}

static void profiler_gather(struct tracer *tracer, struct tracer_run *run)
{
	(void)tracer;
	profiler_run_gather(run->arg);
}

static void profiler_give_up(struct tracer *tracer, struct tracer_run *run)
{
	(void)tracer;
	profiler_run_finish(run->arg);
}

static void profiler_cancel(struct tracer *tracer, struct tracer_run *run)
{
	(void)tracer;
	profiler_run_free(run->arg);
}

/* ---- the table ---- */

static void profiler_state(const struct tracer *tracer, struct tracer_state *out)
{
	const struct tracer_profiler *t = (const struct tracer_profiler *)tracer;
	const struct profiler_conf *conf = t->conf;

	*out = (struct tracer_state){ .health = TRACER_OK };
	if (!conf->profiler.n && !conf->discover) {
		out->health = TRACER_OFF;
		snprintf(out->reason, sizeof(out->reason),
			 "no framework profilers: set --profiler HOST:PORT or --discover");
	} else if (lane_is_stuck(t->lane)) {
		out->health = TRACER_DEGRADED;
		snprintf(out->reason, sizeof(out->reason),
			 "the file system of a process with a profiler server does not answer: the "
			 "files of older servers are not read");
	} else if (conf->discover && discover_is_incomplete(t->discover)) {
		out->health = TRACER_DEGRADED;
		out->errno_value = EACCES;
		snprintf(out->reason, sizeof(out->reason),
			 "the sockets of other users' processes cannot be listed: grant "
			 "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
	}
}

static size_t profiler_jobs(const struct tracer *tracer, struct tracer_job *out, size_t max)
{
	const struct tracer_profiler *t = (const struct tracer_profiler *)tracer;

	return profiler_list_jobs(t->conf, t->discover, out, max);
}

static void profiler_free(struct tracer *tracer)
{
	struct tracer_profiler *t = to_profiler(tracer);

	continuous_free(t->continuous);
	discover_free(t->discover);
	sweep_free(t->sweep);
	while (t->live) /* cancelled calls end at once, the last Terminate by its deadline */
		loop_turn(t->env.loop, 50);
	lane_free(t->lane);
	free(t);
}

int tracer_profiler_open(struct tracer **out, const struct tracer_env *env, const char *proc,
			 struct err *e)
{
	const struct profiler_conf *conf = env->conf;
	const struct discover_conf discover = {
		.loop = env->loop,
		.rpc = env->rpc,
		.pods = env->pods,
		.proc = proc,
		.probe = conf->discover,
	};
	struct tracer_profiler *t;

	for (size_t i = 0; i < conf->profiler.n; i++) {
		int rc = profiler_check_target(env->listen, conf->profiler.items[i], e);

		if (rc)
			return rc;
	}
	t = xcalloc(1, sizeof(*t));
	t->base.ops = &tracer_profiler_ops;
	t->env = *env;
	t->conf = conf;
	t->discover = discover_new(&discover);
	t->lane = lane_new(env->loop);
	t->sweep = sweep_new(env->loop, t->lane);
	if (conf->continuous) {
		t->continuous = continuous_new(&(struct continuous_conf){
			.loop = env->loop,
			.rpc = env->rpc,
			.live = &t->live,
			.host = env->host ? env->host : "localhost",
			.servers = &conf->profiler,
			.discover = t->discover,
			.keep_ns = env->ring.ns ? env->ring.ns : 60 * NS_PER_S,
		});
	}
	*out = &t->base;
	return 0;
}

static int profiler_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	return tracer_profiler_open(out, env, "/proc", e);
}

const struct tracer_ops tracer_profiler_ops = {
	.name = "profiler",
	.conf = conf_fields,
	.conf_size = sizeof(struct profiler_conf),
	.open = profiler_open,
	.state = profiler_state,
	.jobs = profiler_jobs,
	.lead_ns = profiler_lead_ns,
	.arm = profiler_arm,
	.stop = profiler_stop,
	.gather = profiler_gather,
	.give_up = profiler_give_up,
	.cancel = profiler_cancel,
	.free = profiler_free,
};
