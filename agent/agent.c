/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <inttypes.h>
#include <stdlib.h>

#include "agent/capture/capture.h"
#include "agent/capture/spool.h"
#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "agent/local/local_service.h"
#include "agent/local/profiler_service.h"
#include "agent/marks/marks.h"
#include "agent/tracer/set.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"

struct agent {
	const struct agent_conf *conf;
	struct loop *loop;
	struct rpc *rpc;
	struct spool *spool;
	struct clock *clock;
	struct marks *marks;
	struct tracer **tracers; /* opened; NULL-terminated */
	struct captures *captures;
	struct profiler_service *profiler_service; /* NULL = none */
	struct control *control;
	struct local_service *local_service; /* NULL = none */
	struct rpc_tls link_tls; /* towards the aggregator */
};

static bool is_set(const char *text)
{
	return text && *text;
}

static int rpc_up(struct agent *a, struct err *e)
{
	return rpc_new(&a->rpc, a->loop, e);
}

static int spool_up(struct agent *a, struct err *e)
{
	return spool_open(&a->spool, a->conf->spool, a->conf->spool_limit_bytes, e);
}

static int clock_up(struct agent *a, struct err *e)
{
	const struct clock_conf conf = {
		.loop = a->loop,
		.test_offset_ns = a->conf->test_clock_offset_ns,
		.test_drift_ppm = a->conf->test_clock_drift_ppm,
	};

	if (conf.test_offset_ns || conf.test_drift_ppm != 0)
		log_warn("AGT-CLOCK", "state=falsified offset_ns=%" PRId64 " drift_ppm=%g",
			 conf.test_offset_ns, conf.test_drift_ppm);
	return clock_new(&a->clock, &conf, e);
}

static struct ring_limits ring_limits(const struct agent *a)
{
	return (struct ring_limits){ .bytes = a->conf->ring_bytes,
				     .ns = a->conf->ring_seconds * NS_PER_S };
}

static int marks_up(struct agent *a, struct err *e)
{
	const struct ring_limits limits = ring_limits(a);

	(void)e;
	a->marks = marks_new(&limits, now_raw_ns());
	return 0;
}

static int tracers_up(struct agent *a, struct err *e)
{
	const struct tracer_env env = {
		.loop = a->loop,
		.rpc = a->rpc,
		.marks = a->marks,
		.ring = ring_limits(a),
		.host = a->conf->host,
		.listen = a->conf->listen,
	};

	return tracer_set_open(&a->tracers, a->conf->drivers, a->conf->tracers,
			       a->conf->driver_confs, &env, e);
}

static int captures_up(struct agent *a, struct err *e)
{
	const struct capture_env env = {
		.loop = a->loop,
		.clock = a->clock,
		.spool = a->spool,
		.marks = a->marks,
		.tracers = a->tracers,
		.host = a->conf->host,
		.file_limit_bytes = a->conf->file_limit_bytes,
	};

	(void)e;
	a->captures = captures_new(&env);
	return 0;
}

static int profiler_service_up(struct agent *a, struct err *e)
{
	const struct agent_conf *conf = a->conf;
	const struct rpc_tls tls = { conf->cert, conf->key, conf->ca, NULL };
	const struct profiler_service_env env = {
		.rpc = a->rpc,
		.clock = a->clock,
		.captures = a->captures,
		.tracers = a->tracers,
		.host = conf->host,
		.listen = conf->listen,
		.tls = is_set(conf->cert) && is_set(conf->key) ? &tls : NULL,
		.insecure = conf->insecure,
	};

	if (!is_set(conf->listen))
		return 0;
	return profiler_service_new(&a->profiler_service, &env, e);
}

static int control_up(struct agent *a, struct err *e)
{
	const struct agent_conf *conf = a->conf;
	const struct profiler_service *service = a->profiler_service;
	const struct link_env env = {
		.loop = a->loop,
		.rpc = a->rpc,
		.clock = a->clock,
		.marks = a->marks,
		.spool = a->spool,
		.captures = a->captures,
		.tracers = a->tracers,
		.host = conf->host,
		.labels = &conf->label,
		.profiler_address = service ? profiler_service_address(service) : "",
		.aggregator = conf->aggregator,
		.tls = is_set(conf->ca) || is_set(conf->cert) ? &a->link_tls : NULL,
		.reconnect_max_ns = conf->reconnect_max_ns,
	};

	a->link_tls = (struct rpc_tls){
		.cert_file = is_set(conf->cert) ? conf->cert : NULL,
		.key_file = is_set(conf->key) ? conf->key : NULL,
		.ca_file = is_set(conf->ca) ? conf->ca : NULL,
		.server_name = is_set(conf->aggregator_name) ? conf->aggregator_name : NULL,
	};
	return control_new(&a->control, &env, e);
}

static int local_service_up(struct agent *a, struct err *e)
{
	const struct local_env env = {
		.loop = a->loop,
		.clock = a->clock,
		.marks = a->marks,
		.control = a->control,
		.tracers = a->tracers,
		.url = a->conf->local_socket,
		.host = a->conf->host,
		.aggregator = a->conf->aggregator,
	};

	return local_service_new(&a->local_service, &env, e);
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
	{ "local-service", local_service_up, local_service_down },
};

static void stop_parts(struct agent *a, size_t n)
{
	while (n)
		parts[--n].stop(a);
	free(a);
}

int agent_new(struct agent **out, const struct agent_conf *conf, struct loop *loop, struct err *e)
{
	struct agent *a = xcalloc(1, sizeof(*a));

	a->conf = conf;
	a->loop = loop;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		int rc = parts[i].start(a, e);

		if (rc) {
			log_error("AGT-PART", "part=%s state=failed reason=\"%s\"", parts[i].name,
				  e->msg);
			stop_parts(a, i);
			return rc;
		}
	}
	*out = a;
	return 0;
}

void agent_free(struct agent *a)
{
	if (a)
		stop_parts(a, ARRAY_SIZE(parts));
}
