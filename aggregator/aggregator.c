/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the aggregator: started in the order of the table, stopped in reverse. */
#include "aggregator/aggregator.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/api/api.h"
#include "aggregator/captures/capture.h"
#include "aggregator/link/control.h"
#include "aggregator/api/events.h"
#include "aggregator/ingest/ingest.h"
#include "aggregator/xprof/profiler_service.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/sessions/sessions.h"
#include "aggregator/time/time_service.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "net/address.h"
#include "net/http_server.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "storage/store.h"

/* A frozen agent is noticed after this and 10 s. A ping costs 30 us: 10,000 agents half a percent of a core. */
#define KEEPALIVE_NS	   (60 * NS_PER_S)
#define CREDIT_PATIENCE_NS (10 * NS_PER_S) /* a chunk at 1 Mbit/s takes 8 s */
#define LOST_PATIENCE_NS   (3 * NS_PER_S) /* agents dial again after 0.1 s, 0.2 s, ... */
#define READY_AGAIN_NS	   (5 * NS_PER_S)
#define LEAD_MAX_NS	   (60 * 1000000000LL)
#define GRACE_MAX_NS	   (3600 * 1000000000LL)
#define HTTP_THREADS	   3
#define READY_KEY	   "tutti/ready"

int64_t aggregator_session_now(const struct aggregator *agg)
{
	return now_raw_ns() + agg->session_clock_shift_ns;
}

/* ---- work ---- */

struct work {
	struct aggregator *agg;
	loop_fn run, done;
	void *arg;
};

static void run_work(void *arg)
{
	struct work *w = arg;

	w->run(w->arg);
}

static void done_work(void *arg)
{
	struct work *w = arg;

	w->agg->jobs--;
	w->done(w->arg);
	free(w);
}

void aggregator_work(struct aggregator *agg, loop_fn run, loop_fn done, void *arg)
{
	struct work *w = xmalloc(sizeof(*w));

	*w = (struct work){ agg, run, done, arg };
	agg->jobs++;
	loop_work(agg->loop, run_work, done_work, w);
}

static void drain(struct aggregator *agg)
{
	while (agg->jobs)
		loop_turn(agg->loop, 100);
}

/* ---- store ---- */

static int try_write(struct store *s, struct err *e)
{
	int rc = store_put_bytes(s, READY_KEY, "ok\n", 3, 0, e);

	return rc ? rc : store_remove(s, READY_KEY, e);
}

struct ready_job {
	struct aggregator *agg;
	struct store *store;
	int rc;
	struct err e;
};

static void check_ready(void *arg);

static void set_ready(struct aggregator *agg, int rc, const struct err *e)
{
	agg->ready = !rc;
	if (!rc)
		return;
	agg->not_ready = *e;
	log_error("AGG-STORE", "action=try reason=\"%s\"", e->msg);
	loop_timer_in(agg->loop, &agg->ready_timer, READY_AGAIN_NS, check_ready, agg);
}

static void run_ready(void *arg)
{
	struct ready_job *job = arg;

	job->rc = try_write(job->store, &job->e);
}

static void done_ready(void *arg)
{
	struct ready_job *job = arg;

	if (!job->agg->stopping)
		set_ready(job->agg, job->rc, &job->e);
	free(job);
}

static void check_ready(void *arg)
{
	struct aggregator *agg = arg;
	struct ready_job *job = xcalloc(1, sizeof(*job));

	*job = (struct ready_job){ .agg = agg, .store = agg->store };
	aggregator_work(agg, run_ready, done_ready, job);
}

/* Sweeping blocks, and must be over before the first capture: nothing is listening yet. A store that
 * is out of order now may be back later. */
static int store_start(struct aggregator *agg, struct err *e)
{
	struct err trouble = { 0 };
	int swept = 0, rc = store_open(&agg->store, agg->conf.store, e);

	if (rc)
		return rc;
	/* A sweep takes another aggregator's captures under way for what a crash left. */
	rc = store_claim(agg->store, e);
	if (rc) {
		store_free(agg->store);
		return rc;
	}
	rc = try_write(agg->store, &trouble);
	agg->claimed = json_object();
	agg->plans = json_array();
	if (!rc && session_sweep(agg->store, agg->plans, &swept, &trouble))
		log_error("AGG-STORE", "action=sweep reason=\"%s\"", trouble.msg);
	set_ready(agg, rc, &trouble);
	log_info("AGG-PART", "part=store state=up url=%s ready=%d swept=%d", agg->conf.store,
		 agg->ready, swept);
	return 0;
}

static void store_stop(struct aggregator *agg)
{
	loop_timer_cancel(agg->loop, &agg->ready_timer);
	drain(agg);
	store_free(agg->store);
	json_decref(agg->claimed);
	json_decref(agg->plans);
	agg->claimed = agg->plans = NULL;
}

/* ---- what has no port ---- */

static int state_start(struct aggregator *agg, struct err *e)
{
	int rc;

	agg->registry = registry_new(agg->loop);
	agg->captures = captures_new(agg);
	agg->events = events_new(agg);
	agg->profiler = profiler_service_new(agg);
	rc = ingest_new(&agg->ingest, agg, e);
	if (rc)
		return rc;
	session_clock_start(agg);
	captures_resume(agg->captures, agg->plans);
	return 0;
}

static void state_stop(struct aggregator *agg)
{
	drain(agg);
	ingest_free(agg->ingest);
	profiler_service_free(agg->profiler);
	events_free(agg->events);
	captures_free(agg->captures);
	registry_free(agg->registry);
}

/* ---- listeners ---- */

static bool has_tls(const struct aggregator *agg)
{
	return agg->conf.cert && *agg->conf.cert;
}

static int probe_start(struct aggregator *agg, struct err *e)
{
	int rc = time_service_start(agg, e);

	if (!rc)
		log_info("AGG-PART", "part=probe state=up address=%s port=%d", agg->conf.probe,
			 agg->probe_port);
	return rc;
}

static void probe_stop(struct aggregator *agg)
{
	time_service_stop(agg);
}

static int grpc_listen(struct aggregator *agg, struct err *e)
{
	const struct rpc_method methods[] = {
		{ CONTROL_PATH, &control_events, agg, LIMIT_CONTROL_BYTES },
		{ INGEST_PATH, &ingest_events, agg->ingest, LIMIT_UPLOAD_MESSAGE_BYTES },
		{ PROFILER_PATH, &profiler_profile_events, agg->profiler, LIMIT_REQUEST_BYTES },
		{ TERMINATE_PATH, &profiler_terminate_events, agg->profiler, LIMIT_REQUEST_BYTES },
		{ MONITOR_PATH, &profiler_monitor_events, agg->profiler, LIMIT_REQUEST_BYTES },
	};
	const struct rpc_tls tls = { .cert_file = agg->conf.cert,
				     .key_file = agg->conf.key,
				     .ca_file = agg->conf.ca };
	const struct rpc_server_opts opts = {
		.address = agg->conf.grpc,
		.tls = has_tls(agg) ? &tls : NULL,
		.max_message_bytes = LIMIT_REQUEST_BYTES,
		.bulk = true,
		.keepalive_ns = KEEPALIVE_NS,
	};

	return rpc_server_new(&agg->rpc_server, agg->rpc, &opts, methods, ARRAY_SIZE(methods),
			      &agg->grpc_port, e);
}

static int grpc_start(struct aggregator *agg, struct err *e)
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

/* Agents are lost by this, their captures end and are committed with what there is. */
static void grpc_stop(struct aggregator *agg)
{
	rpc_server_free(agg->rpc_server);
	captures_stop(agg->captures);
	drain(agg);
	rpc_free(agg->rpc);
}

static int load_token(struct aggregator *agg, struct err *e)
{
	const char *path = agg->conf.token_file;

	return path && *path ? secret_load(&agg->token, path, e) : 0;
}

static int http_start(struct aggregator *agg, struct err *e)
{
	const struct http_server_opts opts = {
		.address = agg->conf.http,
		.cert_file = has_tls(agg) ? agg->conf.cert : NULL,
		.key_file = has_tls(agg) ? agg->conf.key : NULL,
		.threads = HTTP_THREADS,
	};
	int rc = load_token(agg, e);

	if (!rc)
		rc = http_server_new(&agg->http, agg->loop, &opts, api_handle, agg, &agg->http_port,
				     e);
	if (rc)
		secret_free(agg->token);
	else
		log_info("AGG-PART", "part=http state=up address=%s port=%d", agg->conf.http,
			 agg->http_port);
	return rc;
}

/* Requests that wait for a worker are answered first. */
static void http_stop(struct aggregator *agg)
{
	drain(agg);
	http_server_free(agg->http);
	secret_free(agg->token);
}

/* ---- all together ---- */

static const struct part {
	const char *name;
	int (*start)(struct aggregator *agg, struct err *e);
	void (*stop)(struct aggregator *agg);
} parts[] = {
	{ "store", store_start, store_stop }, { "state", state_start, state_stop },
	{ "probe", probe_start, probe_stop }, { "grpc", grpc_start, grpc_stop },
	{ "http", http_start, http_stop },
};

static void stop_parts(struct aggregator *agg, size_t n)
{
	agg->stopping = true;
	while (n-- > 0) {
		parts[n].stop(agg);
		log_info("AGG-PART", "part=%s state=down", parts[n].name);
	}
}

/* Probes are not secret and are answered to cookies only, but the rule is one for all ports. */
static int check_listeners(const struct aggregator *agg, struct err *e)
{
	const char *const addresses[] = { agg->conf.http, agg->conf.grpc, agg->conf.probe };

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		int rc = address_check_listener(addresses[i], has_tls(agg), agg->conf.insecure, e);

		if (rc)
			return rc;
	}
	return 0;
}

static int check_conf(const struct aggregator *agg, struct err *e)
{
	const struct aggregator_conf *conf = &agg->conf;

	if (conf->lead_ns < 0 || conf->lead_ns > LEAD_MAX_NS)
		return err_set(e, ERR_INVALID, "lead: use 0 to %lld s", LEAD_MAX_NS / NS_PER_S);
	if (conf->grace_ns <= 0 || conf->grace_ns > GRACE_MAX_NS)
		return err_set(e, ERR_INVALID, "grace: use more than 0, at most %lld s",
			       GRACE_MAX_NS / NS_PER_S);
	return check_listeners(agg, e);
}

int aggregator_start(struct aggregator *agg, struct err *e)
{
	int rc = check_conf(agg, e);

	if (rc)
		return rc;
	agg->started_mono_ns = now_mono_ns();
	if (!agg->arm_patience_ns)
		agg->arm_patience_ns = NS_PER_S;
	if (!agg->credit_patience_ns)
		agg->credit_patience_ns = CREDIT_PATIENCE_NS;
	if (!agg->lost_patience_ns)
		agg->lost_patience_ns = LOST_PATIENCE_NS;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		rc = parts[i].start(agg, e);
		if (rc) {
			err_prefix(e, "%s", parts[i].name);
			stop_parts(agg, i);
			return rc;
		}
	}
	return 0;
}

void aggregator_stop(struct aggregator *agg)
{
	stop_parts(agg, ARRAY_SIZE(parts));
}
