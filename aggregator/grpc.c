/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the aggregator that serves gRPC: agents and ProfilerService clients. */
#include "aggregator/aggregator.h"

#include "aggregator/enrol/enrol.h"
#include "aggregator/link/control.h"
#include "aggregator/xprof/profiler_service.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"

/* Time between two pings of an agent. A frozen agent is noticed within this plus 10 s. A ping costs 30 us, so
 * pinging 10,000 agents takes half a percent of a CPU. */
#define KEEPALIVE_NS (60 * NS_PER_S)

static const char *set_or_null(const char *text)
{
	return conf_is_set(text) ? text : NULL;
}

/* With an authority of its own the aggregator verifies certificates call by call, and needs none of its settings. */
static struct rpc_tls tls_of(const struct aggregator *agg)
{
	struct rpc_tls tls = { .cert_file = set_or_null(agg->conf.cert),
			       .key_file = set_or_null(agg->conf.key),
			       .ca_file = set_or_null(agg->conf.ca) };

	if (!agg->enrol)
		return tls;
	tls.verifier = enrol_verifier(agg->enrol);
	if (!tls.cert_file) {
		tls.cert_file = enrol_server_cert_file(agg->enrol);
		tls.key_file = enrol_server_key_file(agg->enrol);
	}
	return tls;
}

/* Methods for callers without a certificate: they show a token, if not here, then to their handler. */
static const char *const by_nothing[] = { ENROL_PATH, NULL };
static const char *const by_token[] = { ENROL_PATH,
					PROFILER_PROFILE,
					PROFILER_TERMINATE,
					PROFILER_MONITOR,
					PROFILER_START_CONTINUOUS,
					PROFILER_START_CONTINUOUS_OLD,
					PROFILER_GET_SNAPSHOT,
					PROFILER_GET_SNAPSHOT_OLD,
					PROFILER_STOP_CONTINUOUS,
					NULL };

static int grpc_listen(struct aggregator *agg, struct err *e)
{
	const struct rpc_method methods[] = {
		{ CONTROL_PATH, &control_events, agg->control, LIMIT_CONTROL_BYTES },
		{ INGEST_PATH, &ingest_events, agg->ingest, LIMIT_UPLOAD_MESSAGE_BYTES },
		{ PROFILER_PROFILE, &profiler_profile_events, agg->profiler, LIMIT_PROFILE_BYTES },
		{ PROFILER_TERMINATE, &profiler_terminate_events, agg->profiler,
		  LIMIT_SMALL_BYTES },
		{ PROFILER_MONITOR, &profiler_monitor_events, agg->profiler, LIMIT_SMALL_BYTES },
		{ PROFILER_START_CONTINUOUS, &profiler_start_events, agg->profiler,
		  LIMIT_PROFILE_BYTES },
		{ PROFILER_START_CONTINUOUS_OLD, &profiler_start_events, agg->profiler,
		  LIMIT_PROFILE_BYTES },
		{ PROFILER_GET_SNAPSHOT, &profiler_snapshot_events, agg->profiler,
		  LIMIT_SMALL_BYTES },
		{ PROFILER_GET_SNAPSHOT_OLD, &profiler_snapshot_events, agg->profiler,
		  LIMIT_SMALL_BYTES },
		{ PROFILER_STOP_CONTINUOUS, &profiler_stop_events, agg->profiler,
		  LIMIT_SMALL_BYTES },
		{ ENROL_PATH, &enrol_events, agg->enrol, LIMIT_ENROL_BYTES },
	};
	const size_t n = ARRAY_SIZE(methods) - (agg->enrol ? 0 : 1);
	const struct rpc_tls tls = tls_of(agg);
	const struct rpc_server_opts opts = {
		.address = agg->conf.grpc,
		.tls = tls.cert_file ? &tls : NULL,
		.max_message_bytes = LIMIT_REQUEST_BYTES,
		.bulk = true,
		.keepalive_ns = KEEPALIVE_NS,
		.guarded = true,
		/* with enrolment people have tokens and no certificates */
		.open_methods = aggregator_anonymous_role(agg) == ROLE_NONE ? by_token : by_nothing,
		.unidentified_per_address = (size_t)agg->conf.hosts_per_address,
	};

	return rpc_server_new(&agg->rpc_server, agg->rpc, &opts, methods, n, &agg->grpc_port, e);
}

int aggregator_grpc_start(struct aggregator *agg, struct err *e)
{
	int rc = rpc_new(&agg->rpc, agg->loop, e);

	if (rc)
		return rc;
	rc = grpc_listen(agg, e);
	if (rc) {
		rpc_free(agg->rpc);
		return rc;
	}
	log_info("AGG-PART", "part=grpc state=up address=%s port=%d", agg->conf.grpc,
		 agg->grpc_port);
	return 0;
}

/* Captures under way stay as a crash would leave them: agents keep their data, and the next aggregator
 * carries on. */
void aggregator_grpc_stop(struct aggregator *agg)
{
	captures_finish_stop(agg->captures);
	captures_refuse_waiting(agg->captures);
	rpc_server_free(agg->rpc_server);
	jobs_drain(&agg->jobs);
	rpc_free(agg->rpc);
}
