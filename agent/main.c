/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's parts, started in order and stopped in reverse. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "agent/agent.h"
#include "agent/capture.h"
#include "agent/clock.h"
#include "agent/control.h"
#include "agent/doorkeeper.h"
#include "agent/marks.h"
#include "agent/profiler_service.h"
#include "agent/spool.h"
#include "agent/tracer_set.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "net/rpc.h"

#define WORKERS 3

static void on_stop_signal(void *arg)
{
	struct agent *a = arg;

	log_info("AGT-STOP", "host=%s", a->conf.host);
	loop_stop(a->loop);
}

static int loop_up(struct agent *a, struct err *e)
{
	int rc = loop_new(&a->loop, WORKERS, e);

	return rc ? rc : loop_on_stop_signal(a->loop, on_stop_signal, a, e);
}

static int rpc_up(struct agent *a, struct err *e)
{
	return rpc_new(&a->rpc, a->loop, e);
}

static int spool_up(struct agent *a, struct err *e)
{
	return spool_open(&a->spool, a->conf.spool, a->conf.spool_limit_bytes, e);
}

static int clock_up(struct agent *a, struct err *e)
{
	const struct clock_conf conf = {
		.loop = a->loop,
		.test_offset_ns = a->conf.test_clock_offset_ns,
		.test_drift_ppm = a->conf.test_clock_drift_ppm,
	};

	if (conf.test_offset_ns || conf.test_drift_ppm != 0)
		log_warn("AGT-CLOCK", "state=falsified offset_ns=%" PRId64 " drift_ppm=%g",
			 conf.test_offset_ns, conf.test_drift_ppm);
	return clock_new(&a->clock, &conf, e);
}

static int marks_up(struct agent *a, struct err *e)
{
	(void)e;
	a->marks = marks_new();
	return 0;
}

static int tracers_up(struct agent *a, struct err *e)
{
	const struct tracer_env env = {
		.loop = a->loop, .rpc = a->rpc, .conf = &a->conf, .marks = a->marks
	};

	return tracer_set_open(&a->tracers, tracers, &env, e);
}

static int captures_up(struct agent *a, struct err *e)
{
	(void)e;
	a->captures = captures_new(a);
	return 0;
}

static int control_up(struct agent *a, struct err *e)
{
	return control_new(&a->control, a, e);
}

static int profiler_service_up(struct agent *a, struct err *e)
{
	int rc;

	if (!a->conf.listen || !*a->conf.listen)
		return 0;
	rc = profiler_service_open(&a->profiler_service, a, e);
	if (!rc)
		a->profiler_port = profiler_service_port(a->profiler_service);
	return rc;
}

static int doorkeeper_up(struct agent *a, struct err *e)
{
	return doorkeeper_new(&a->doorkeeper, a, e);
}

/* The part's own free(), on its member of the agent. */
#define DOWN(part, free_part) \
	static void part##_down(struct agent *a) \
	{ \
		free_part(a->part); \
	}
DOWN(loop, loop_free)
DOWN(rpc, rpc_free)
DOWN(spool, spool_free)
DOWN(clock, clock_free)
DOWN(marks, marks_free)
DOWN(tracers, tracer_set_close)
DOWN(captures, captures_free)
DOWN(profiler_service, profiler_service_free)
DOWN(control, control_free)
DOWN(doorkeeper, doorkeeper_free)

static const struct part {
	const char *name;
	int (*start)(struct agent *a, struct err *e);
	void (*stop)(struct agent *a);
} parts[] = {
	{ "loop", loop_up, loop_down },
	{ "rpc", rpc_up, rpc_down },
	{ "spool", spool_up, spool_down },
	{ "clock", clock_up, clock_down },
	{ "marks", marks_up, marks_down },
	{ "tracers", tracers_up, tracers_down },
	{ "captures", captures_up, captures_down },
	{ "profiler-service", profiler_service_up, profiler_service_down },
	{ "control", control_up, control_down },
	{ "doorkeeper", doorkeeper_up, doorkeeper_down },
};

static int run(struct agent *a)
{
	size_t n = 0;
	struct err e;
	int rc = 0;

	while (n < ARRAY_SIZE(parts) && !rc) {
		rc = parts[n].start(a, &e);
		if (rc)
			log_error("AGT-PART", "part=%s state=failed reason=\"%s\"", parts[n].name,
				  e.msg);
		else
			n++;
	}
	if (!rc) {
		log_info("AGT-UP", "host=%s version=%s", a->conf.host, TUTTI_VERSION);
		loop_run(a->loop);
	}
	while (n)
		parts[--n].stop(a);
	return rc ? 1 : 0;
}

static int set_up(struct agent *a, struct err *e)
{
	enum log_level level;
	int rc = log_level_parse(a->conf.log_level, &level, e);

	if (rc)
		return rc;
	log_set_level(level);
	return agent_conf_finish(&a->conf, e);
}

int main(int argc, char **argv)
{
	struct agent agent = { 0 };
	enum conf_want want;
	struct err e;
	int status = 0;
	int rc;

	/* Whoever reads our log, or talks to us, may leave: that is an error of a write, no more. */
	signal(SIGPIPE, SIG_IGN);
	argc--;
	rc = conf_load(&agent.conf, &agent_conf_table, &argc, argv + 1, &want, &e);
	if (!rc && argc && want != CONF_HELP)
		rc = err_set(&e, ERR_INVALID, "unknown argument '%s'", argv[1]);
	if (!rc && want != CONF_HELP)
		rc = set_up(&agent, &e);
	if (rc) {
		fprintf(stderr, "tutti-agent: %s\n", e.msg);
		status = 2;
	} else if (want == CONF_HELP) {
		conf_help(&agent_conf_table, stdout);
	} else if (want == CONF_PRINT) {
		conf_print(&agent.conf, &agent_conf_table, stdout);
	} else {
		status = run(&agent);
	}
	conf_release(&agent.conf, &agent_conf_table);
	return status;
}
