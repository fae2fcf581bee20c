/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's parts, started in order and stopped in reverse. */
#include "agent/agent.h"

#include <inttypes.h>

#include "agent/capture/capture.h"
#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "agent/local/local_service.h"
#include "agent/marks/marks.h"
#include "agent/local/profiler_service.h"
#include "agent/capture/spool.h"
#include "agent/tracer/set.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/rpc.h"

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

static int local_service_up(struct agent *a, struct err *e)
{
	return local_service_new(&a->local_service, a, e);
}

/* The part's own free(), on its member of the agent. */
#define DOWN(part, free_part) \
	static void part##_down(struct agent *a) \
	{ \
		free_part(a->part); \
	}
DOWN(rpc, rpc_free)
DOWN(spool, spool_free)
DOWN(clock, clock_free)
DOWN(marks, marks_free)
DOWN(tracers, tracer_set_close)
DOWN(captures, captures_free)
DOWN(profiler_service, profiler_service_free)
DOWN(control, control_free)
DOWN(local_service, local_service_free)

static const struct part {
	const char *name;
	int (*start)(struct agent *a, struct err *e);
	void (*stop)(struct agent *a);
} parts[] = {
	{ "rpc", rpc_up, rpc_down },
	{ "spool", spool_up, spool_down },
	{ "clock", clock_up, clock_down },
	{ "marks", marks_up, marks_down },
	{ "tracers", tracers_up, tracers_down },
	{ "captures", captures_up, captures_down },
	{ "profiler-service", profiler_service_up, profiler_service_down },
	{ "control", control_up, control_down },
	{ "local_service", local_service_up, local_service_down },
};

static void stop_parts(struct agent *a, size_t n)
{
	while (n)
		parts[--n].stop(a);
}

int agent_start(struct agent *a, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		int rc = parts[i].start(a, e);

		if (rc) {
			log_error("AGT-PART", "part=%s state=failed reason=\"%s\"", parts[i].name,
				  e->msg);
			stop_parts(a, i);
			return rc;
		}
	}
	return 0;
}

void agent_stop(struct agent *a)
{
	stop_parts(a, ARRAY_SIZE(parts));
}
