/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <inttypes.h>
#include <stdlib.h>

#include "agent/budget/budget.h"
#include "agent/capture/capture.h"
#include "agent/capture/spool.h"
#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "agent/link/enrol.h"
#include "agent/local/local_service.h"
#include "agent/local/profiler_service.h"
#include "agent/marks/marks.h"
#include "agent/pods/local_pods.h"
#include "agent/snapshot_requests.h"
#include "agent/python/python.h"
#include "agent/python/sampler.h"
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
	struct budget *budget;
	struct marks *marks;
	struct local_pods *pods;
	struct python *python;
	struct tracer **tracers; /* opened; NULL-terminated */
	struct captures *captures;
	struct profiler_service *profiler_service; /* NULL = none */
	struct control *control;
	struct snapshot_requests *snapshot_requests; /* NULL until the control link is there */
	struct local_service *local_service; /* NULL = none */
	struct rpc_tls link_tls; /* towards the aggregator */
	char *identity; /* folder of the certificate that the aggregator gives */
};

static int start_rpc(struct agent *a, struct err *e)
{
	return rpc_new(&a->rpc, a->loop, e);
}

static int start_spool(struct agent *a, struct err *e)
{
	return spool_open(&a->spool, a->conf->spool, a->conf->spool_limit_bytes, e);
}

static int start_clock(struct agent *a, struct err *e)
{
	const struct clock_conf conf = {
		.loop = a->loop,
		.test_offset_ns = a->conf->test_clock_offset_ns,
		.test_drift_ppm = a->conf->test_clock_drift_ppm,
	};

	if (conf.test_offset_ns || conf.test_drift_ppm != 0)
		log_warn("AGT-CLOCK", "state=injected-error offset_ns=%" PRId64 " drift_ppm=%g",
			 conf.test_offset_ns, conf.test_drift_ppm);
	return clock_new(&a->clock, &conf, e);
}

static struct ring_limits ring_limits(const struct agent *a)
{
	return (struct ring_limits){ .bytes = a->conf->ring_bytes,
				     .ns = a->conf->ring_seconds * NS_PER_S,
				     .halvings = a->budget ? budget_halvings(a->budget) : NULL };
}

/* The process that samples Python programs. */
static struct budget_usage usage_of_helper(void *files)
{
	const struct python_usage u = python_helper_usage(files);

	return (struct budget_usage){ u.cpu_ns, u.resident_bytes };
}

static int start_budget(struct agent *a, struct err *e)
{
	const struct budget_conf conf = { .loop = a->loop,
					  .others = a->conf->files ? usage_of_helper : NULL,
					  .others_arg = a->conf->files,
					  .ring = ring_limits(a),
					  .max_cpu_percent = a->conf->max_cpu_percent,
					  .max_rss_bytes = a->conf->max_rss_bytes };

	(void)e;
	a->budget = budget_new(&conf);
	return 0;
}

static int start_marks(struct agent *a, struct err *e)
{
	const struct ring_limits limits = ring_limits(a);

	(void)e;
	a->marks = marks_new(&limits, now_raw_ns());
	return 0;
}

static int start_pods(struct agent *a, struct err *e)
{
	const struct local_pods_conf conf = { .loop = a->loop, .proc = "/proc" };

	(void)e;
	a->pods = local_pods_new(&conf);
	return 0;
}

static int start_python(struct agent *a, struct err *e)
{
	const struct ring_limits limits = ring_limits(a);

	(void)e;
	a->python = python_new(a->loop, &limits, a->pods, a->conf->files);
	return 0;
}

static void request_snapshot(void *arg, int64_t from_real_ns, int64_t to_real_ns, const char *run)
{
	struct agent *a = arg;

	if (a->snapshot_requests)
		snapshot_request(a->snapshot_requests, from_real_ns, to_real_ns, run);
}

static int start_tracers(struct agent *a, struct err *e)
{
	const struct tracer_env env = {
		.loop = a->loop,
		.rpc = a->rpc,
		.marks = a->marks,
		.pods = a->pods,
		.files = a->conf->files,
		.python = a->python,
		.budget = a->budget,
		.ring = ring_limits(a),
		.host = a->conf->host,
		.listen = a->conf->listen,
		.request_snapshot = request_snapshot,
		.request_arg = a,
	};

	int rc = tracer_set_open(&a->tracers, a->conf->drivers, a->conf->tracers,
				 a->conf->driver_confs, &env, e);

	if (!rc)
		budget_watch(a->budget, a->tracers);
	return rc;
}

static void stop_tracers(struct agent *a)
{
	budget_watch(a->budget, NULL);
	tracer_set_close(a->tracers);
}

static int start_captures(struct agent *a, struct err *e)
{
	const struct capture_env env = {
		.loop = a->loop,
		.clock = a->clock,
		.spool = a->spool,
		.marks = a->marks,
		.pods = a->pods,
		.tracers = a->tracers,
		.host = a->conf->host,
		.file_limit_bytes = a->conf->file_limit_bytes,
	};

	(void)e;
	a->captures = captures_new(&env);
	return 0;
}

static int start_profiler_service(struct agent *a, struct err *e)
{
	const struct agent_conf *conf = a->conf;
	const struct rpc_tls tls = { .cert_file = conf->cert,
				     .key_file = conf->key,
				     .ca_file = conf->ca };
	const struct profiler_service_env env = {
		.rpc = a->rpc,
		.clock = a->clock,
		.captures = a->captures,
		.tracers = a->tracers,
		.host = conf->host,
		.listen = conf->listen,
		.tls = conf_is_set(conf->cert) && conf_is_set(conf->key) ? &tls : NULL,
		.insecure = conf->insecure,
	};

	if (!conf_is_set(conf->listen))
		return 0;
	return profiler_service_new(&a->profiler_service, &env, e);
}

static int start_control(struct agent *a, struct err *e)
{
	const struct agent_conf *conf = a->conf;
	const struct profiler_service *service = a->profiler_service;
	const struct enrol_env enrol = { .loop = a->loop,
					 .rpc = a->rpc,
					 .host = conf->host,
					 .folder = a->identity,
					 .token_file = conf->enrol_token,
					 .tls = &a->link_tls };
	const struct link_env env = {
		.loop = a->loop,
		.rpc = a->rpc,
		.clock = a->clock,
		.marks = a->marks,
		.pods = a->pods,
		.spool = a->spool,
		.captures = a->captures,
		.tracers = a->tracers,
		.host = conf->host,
		.labels = &conf->label,
		.profiler_address = service ? profiler_service_address(service) : "",
		.aggregator = conf->aggregator,
		.store_ca = conf_is_set(conf->store_ca) ? conf->store_ca : NULL,
		.tls = conf_is_set(conf->ca) || conf_is_set(conf->cert) ? &a->link_tls : NULL,
		.enrol = conf_is_set(conf->enrol_token) ? &enrol : NULL,
		.reconnect_max_ns = conf->reconnect_max_ns,
		.back_within_ns = conf->back_within_ns,
	};

	a->link_tls = (struct rpc_tls){
		.cert_file = conf_is_set(conf->cert) ? conf->cert : NULL,
		.key_file = conf_is_set(conf->key) ? conf->key : NULL,
		.ca_file = conf_is_set(conf->ca) ? conf->ca : NULL,
		.server_name = conf_is_set(conf->aggregator_name) ? conf->aggregator_name : NULL,
	};
	return control_new(&a->control, &env, e);
}

static int start_snapshot_requests(struct agent *a, struct err *e)
{
	(void)e;
	a->snapshot_requests = snapshot_requests_new(a->loop, a->clock, a->control);
	return 0;
}

static int start_local_service(struct agent *a, struct err *e)
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
		.spool = a->conf->spool,
	};

	return local_service_new(&a->local_service, &env, e);
}

/* Defines stop_PART(), which frees the part's member of the agent with `free_part`. */
#define DEFINE_STOP(part, free_part) \
	static void stop_##part(struct agent *a) \
	{ \
		free_part(a->part); \
	}
DEFINE_STOP(rpc, rpc_free)
DEFINE_STOP(spool, spool_free)
DEFINE_STOP(clock, clock_free)
DEFINE_STOP(budget, budget_free)
DEFINE_STOP(marks, marks_free)
DEFINE_STOP(pods, local_pods_free)
DEFINE_STOP(python, python_free)
DEFINE_STOP(captures, captures_free)
DEFINE_STOP(profiler_service, profiler_service_free)
DEFINE_STOP(control, control_free)

/* Stopped before the control link, whose end answers the open questions with "no", and before the tracers, whose
 * drivers then find NULL and request nothing more. */
static void stop_snapshot_requests(struct agent *a)
{
	snapshot_requests_free(a->snapshot_requests);
	a->snapshot_requests = NULL;
}

DEFINE_STOP(local_service, local_service_free)

static const struct part {
	const char *name;
	int (*start)(struct agent *a, struct err *e);
	void (*stop)(struct agent *a);
} parts[] = {
	{ "rpc", start_rpc, stop_rpc },
	{ "spool", start_spool, stop_spool },
	{ "clock", start_clock, stop_clock },
	{ "budget", start_budget, stop_budget },
	{ "marks", start_marks, stop_marks },
	{ "pods", start_pods, stop_pods },
	{ "python", start_python, stop_python },
	{ "tracers", start_tracers, stop_tracers },
	{ "captures", start_captures, stop_captures },
	{ "profiler-service", start_profiler_service, stop_profiler_service },
	{ "control", start_control, stop_control },
	{ "snapshot-requests", start_snapshot_requests, stop_snapshot_requests },
	{ "local-service", start_local_service, stop_local_service },
};

static void stop_parts(struct agent *a, size_t n)
{
	while (n)
		parts[--n].stop(a);
	free(a->identity);
	free(a);
}

int agent_new(struct agent **out, const struct agent_conf *conf, struct loop *loop, struct err *e)
{
	struct agent *a = xcalloc(1, sizeof(*a));

	a->conf = conf;
	a->loop = loop;
	a->identity = xasprintf("%s/identity", conf->spool);
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

void agent_leave(struct agent *a, loop_fn done, void *arg)
{
	control_leave(a->control, a->conf->stop_limit_ns, done, arg);
}
