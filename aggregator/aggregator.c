/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the aggregator: started in the order of the table, stopped in reverse. */
#include "aggregator/aggregator.h"

#include "aggregator/access/access.h"
#include "aggregator/access/audit.h"
#include "aggregator/api/api.h"
#include "aggregator/api/link_key.h"
#include "aggregator/enrol/enrol.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/imports/imports.h"
#include "aggregator/ingest/ingest.h"
#include "aggregator/lease/keeper.h"
#include "aggregator/link/control.h"
#include "aggregator/parts.h"
#include "aggregator/pod_failures.h"
#include "aggregator/pods/pods.h"
#include "aggregator/replica.h"
#include "aggregator/time/time_service.h"
#include "aggregator/views/views.h"
#include "aggregator/xprof/profiler_service.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "net/rpc.h"
#include "storage/store.h"

#define CREDIT_PATIENCE_NS (10 * NS_PER_S) /* more than the 8 s that a chunk takes at 1 Mbit/s */
/* an agent dials again after 0.1 s, 0.2 s, ...: several attempts */
#define LOST_PATIENCE_NS (3 * NS_PER_S)

/* ---- the store ---- */

static void store_stop(struct aggregator *agg)
{
	jobs_drain(&agg->jobs);
	session_store_close(&agg->store);
	json_decref(agg->recoverable);
}

/* A leader whose lease is over ends itself, but a worker or a timer may run before that: where it was frozen, another one
 * has gone on with its sessions. */
static int check_lease(void *agg, struct err *e)
{
	return replica_check(agg, e);
}

static int store_start(struct aggregator *agg, struct err *e)
{
	const struct store_fence fence = { check_lease, agg };
	int rc;

	agg->recoverable = json_array();
	rc = session_store_open(&agg->store, &agg->jobs, agg->conf.store, agg->recoverable, e);
	if (rc) {
		json_decref(agg->recoverable);
		return rc;
	}
	if (agg->replica)
		store_set_fence(agg->store.store, &fence);
	rc = agg->store_opened ? agg->store_opened(agg, e) : 0;
	if (rc)
		store_stop(agg);
	return rc;
}

/* A follower's: the leader alone recovers, and writes. */
static int store_open_reads(struct aggregator *agg, struct err *e)
{
	return session_store_open_reads(&agg->store, &agg->jobs, agg->conf.store, e);
}

/* ---- parts without a port ---- */

static bool is_auto(const char *way)
{
	return !conf_is_set(way) || !strcmp(way, "auto");
}

static bool has_grants(const struct aggregator *agg)
{
	return store_grants(agg->store.store) && is_auto(agg->conf.upload);
}

static int admit(void *arg, const char *run, struct err *e)
{
	const struct aggregator *agg = arg;
	int rc = replica_check(agg, e);

	if (!rc)
		rc = audit_check(agg->audit, e);
	return rc ? rc : quotas_check(agg->quotas, run, 0, e);
}

static void admitted(void *arg, struct capture *c)
{
	const struct aggregator *agg = arg;

	quotas_note(agg->quotas, c);
	aggregator_note_started(agg, c);
}

static void stopped(void *arg, const struct capture *c, const char *by)
{
	aggregator_note_stopped(arg, c, by);
}

static bool is_behind(void *arg)
{
	const struct aggregator *agg = arg;

	return agg->rpc && rpc_is_behind(agg->rpc);
}

static void new_captures(struct aggregator *agg)
{
	const struct captures_env env = {
		.loop = agg->loop,
		.jobs = &agg->jobs,
		.clock = &agg->clock,
		.store = &agg->store,
		.registry = agg->registry,
		.pods = agg->pods,
		.patience = &agg->patience,
		.spool = agg->conf.spool,
		.lead_ns = agg->conf.lead_ns,
		.grace_ns = agg->conf.grace_ns,
		.causality_ns = agg->conf.causality_ns,
		.by_grants = has_grants(agg),
		.admit = admit,
		.admitted = admitted,
		.stopped = stopped,
		.admit_arg = agg,
		.is_behind = is_behind,
		.behind_arg = agg,
	};

	agg->captures = captures_new(&env);
	agg->pod_failures = pod_failures_new(agg->loop, agg->pods, agg->captures);
}

static void new_control(struct aggregator *agg)
{
	const struct control_env env = {
		.loop = agg->loop,
		.clock = &agg->clock,
		.time = agg->time,
		.registry = agg->registry,
		.captures = agg->captures,
		.needs_certificate = aggregator_has_certificates(agg),
		.access = agg->access,
		.term = agg->term,
	};

	agg->control = control_new(&env);
}

static void new_profiler(struct aggregator *agg)
{
	const struct profiler_env env = {
		.loop = agg->loop,
		.jobs = &agg->jobs,
		.clock = &agg->clock,
		.store = &agg->store,
		.registry = agg->registry,
		.captures = agg->captures,
		.lead_ns = agg->conf.lead_ns,
		.access = agg->access,
	};

	agg->profiler = profiler_service_new(&env);
}

static void new_removals(struct aggregator *agg)
{
	const struct removals_env env = { .jobs = &agg->jobs,
					  .store = &agg->store,
					  .captures = agg->captures };

	agg->removals = removals_new(&env);
}

static void start_retention(struct aggregator *agg)
{
	const struct retention_env env = { .jobs = &agg->jobs,
					   .clock = &agg->clock,
					   .store = &agg->store,
					   .removals = agg->removals,
					   .period_ns = agg->conf.retain_period_ns };

	retention_start(&agg->retention, &env);
}

static int new_pods(struct aggregator *agg, struct err *e)
{
	const struct pods_env env = { .jobs = &agg->jobs,
				      .registry = agg->registry,
				      .server = agg->leader ? NULL : agg->conf.kubernetes,
				      .token_file = agg->conf.kubernetes_token_file,
				      .ca_file = agg->conf.kubernetes_ca,
				      .retry_ns = agg->conf.kubernetes_retry_ns };

	return pods_new(&agg->pods, &env, e);
}

static int new_ingest(struct aggregator *agg, struct err *e)
{
	const struct ingest_env env = {
		.loop = agg->loop,
		.jobs = &agg->jobs,
		.store = &agg->store,
		.captures = agg->captures,
		.spool = agg->conf.spool,
		.check = agg->check_file ? agg->check_file : ingest_check_xspace,
		.by_grants = has_grants(agg),
		.is_replica = agg->term != 0,
		.needs_certificate = aggregator_has_certificates(agg),
	};

	return ingest_new(&agg->ingest, &env, e);
}

static void start_quotas(struct aggregator *agg)
{
	const struct quotas_env env = { .jobs = &agg->jobs,
					.store = &agg->store,
					.captures = agg->captures,
					.period_ns = agg->conf.retain_period_ns };

	quotas_start(agg->quotas, &env);
}

static void new_imports(struct aggregator *agg)
{
	const struct imports_env env = { .jobs = &agg->jobs,
					 .store = &agg->store,
					 .spool = agg->conf.spool };

	agg->imports = imports_new(&env);
}

static void new_views(struct aggregator *agg)
{
	struct views_env env = { .jobs = &agg->jobs,
				 .store = &agg->store,
				 .kept_bytes = agg->conf.views_limit };

	agg->views_folder = xasprintf("%s/views", agg->conf.spool);
	env.folder = agg->views_folder;
	agg->views = views_new(&env);
}

static bool has_tls(const struct aggregator *agg)
{
	return conf_is_set(agg->conf.cert);
}

static void new_api(struct aggregator *agg)
{
	const struct api_env env = {
		.jobs = &agg->jobs,
		.store = &agg->store,
		.registry = agg->registry,
		.pods = agg->pods,
		.captures = agg->captures,
		.imports = agg->imports,
		.removals = agg->removals,
		.quotas = agg->quotas,
		.views = agg->views,
		.retention = &agg->retention.stats,
		.time = agg->time,
		.ingest = agg->ingest,
		.control = agg->control,
		.started_mono_ns = agg->started_mono_ns,
		.access = agg->access,
		.audit = agg->audit,
		.enrol = agg->enrol,
		.links = agg->control,
		.limits = { .captures = agg->conf.limit_captures,
			    .starts = agg->conf.limit_starts,
			    .bytes = agg->conf.limit_bytes,
			    .streams = agg->conf.limit_streams },
		.has_tls = has_tls(agg),
		.link_key = agg->link_key,
		.has_links = store_links(agg->store.store) && is_auto(agg->conf.reads),
		.http_address = agg->conf.http,
		.http_hosts = &agg->conf.http_host,
		.perfetto_url = agg->conf.perfetto_url,
		.xprof_url = agg->conf.xprof_url,
		.replica = agg->conf.replica,
		.leader = agg->leader ? agg->leader->replica : NULL,
		.leader_url = agg->leader ? agg->leader->url : NULL,
	};

	agg->api = api_new(&env);
}

/* The part "state": all rooms that have no port of their own. */
static void state_stop(struct aggregator *agg)
{
	pods_stop(agg->pods);
	access_stop(agg->access);
	enrol_stop(agg->enrol);
	session_store_stop(&agg->store);
	jobs_drain(&agg->jobs);
	index_check_release(&agg->index_check);
	api_free(agg->api);
	views_free(agg->views);
	free(agg->views_folder);
	removals_free(agg->removals);
	imports_free(agg->imports);
	ingest_free(agg->ingest);
	profiler_service_free(agg->profiler);
	control_free(agg->control);
	pod_failures_free(agg->pod_failures);
	captures_free(agg->captures);
	time_service_free(agg->time);
	aggregator_close_enrolment(agg);
	aggregator_close_access(agg);
	pods_free(agg->pods);
	agg->pods = NULL;
	registry_free(agg->registry);
}

static void *read_left(const json_t *recoverable)
{
	return capture_left_read(recoverable);
}

/* Ends all links. The agents do what they do after a restart of the aggregator: they dial again and report
 * the captures that they hold. */
static void carry_on(void *arg, void *left_taken)
{
	struct aggregator *agg = arg;

	if (!agg->store.stopping) {
		control_close_links(agg->control,
				    "captures of an earlier run are carried on: dial again");
		captures_recover(agg->captures, left_taken);
	}
	capture_left_free(left_taken);
}

static void note_settled(void *arg, const char *session)
{
	const struct aggregator *agg = arg;

	api_note_settled(agg->api, session);
}

/* Before there is a loop that turns. */
static void carry_on_all(struct aggregator *agg)
{
	for (size_t i = 0; i < json_array_size(agg->recoverable); i++) {
		struct capture_left *left = capture_left_read(json_array_get(agg->recoverable, i));

		captures_recover(agg->captures, left);
		capture_left_free(left);
	}
	json_array_clear(agg->recoverable);
}

/* What a leader does without being asked. */
static int begin_work(struct aggregator *agg, struct err *e)
{
	const struct session_heir heir = {
		.read = read_left, .take = carry_on, .settled = note_settled, .arg = agg
	};
	int rc;

	session_clock_load(&agg->clock, agg->conf.spool,
			   json_array_size(agg->recoverable) || !agg->store.swept);
	rc = replica_publish_clock(agg, e);
	if (rc) {
		state_stop(agg);
		return rc;
	}
	carry_on_all(agg);
	session_store_start(&agg->store, &heir);
	index_check_start(&agg->index_check, &agg->jobs, agg->store.store);
	start_retention(agg);
	start_quotas(agg);
	return 0;
}

static int state_start(struct aggregator *agg, struct err *e)
{
	struct time_env time = { .loop = agg->loop, .clock = &agg->clock };
	int rc;

	agg->registry = registry_new(agg->loop);
	if (!aggregator_has_certificates(agg))
		registry_limit_address(agg->registry, (size_t)agg->conf.hosts_per_address);
	time.registry = agg->registry;
	agg->time = time_service_new(&time);
	rc = new_pods(agg, e);
	if (!rc)
		rc = aggregator_open_access(agg, e);
	if (!rc && !agg->leader)
		rc = aggregator_open_enrolment(agg, e);
	if (rc) {
		pods_stop(agg->pods);
		access_stop(agg->access);
		enrol_stop(agg->enrol);
		jobs_drain(&agg->jobs);
		aggregator_close_access(agg);
		pods_free(agg->pods);
		time_service_free(agg->time);
		registry_free(agg->registry);
		agg->pods = NULL;
		return rc;
	}
	new_captures(agg);
	new_removals(agg);
	new_control(agg);
	new_profiler(agg);
	rc = agg->leader ? 0 : new_ingest(agg, e);
	if (!rc)
		rc = link_key_load(&agg->link_key, agg->conf.spool, e);
	if (rc) {
		state_stop(agg);
		return rc;
	}
	new_imports(agg);
	new_views(agg);
	new_api(agg);
	return agg->leader ? 0 : begin_work(agg, e);
}

/* ---- all together ---- */

struct part {
	const char *name;
	int (*start)(struct aggregator *agg, struct err *e);
	void (*stop)(struct aggregator *agg);
};

static const struct part parts[] = {
	{ "replica", replica_start, replica_stop },
	{ "store", store_start, store_stop },
	{ "state", state_start, state_stop },
	{ "probe", probe_start, probe_stop },
	{ "grpc", aggregator_grpc_start, aggregator_grpc_stop },
	{ "http", http_start, http_stop },
};

/* Of a follower. */
static const struct part reading_parts[] = {
	{ "store", store_open_reads, store_stop },
	{ "state", state_start, state_stop },
	{ "http", http_start, http_stop },
};

static void stop_parts(struct aggregator *agg, const struct part *list, size_t n)
{
	if (agg->api)
		api_begin_stop(agg->api);
	if (agg->views)
		views_stop(agg->views);
	pods_stop(agg->pods);
	access_stop(agg->access);
	enrol_stop(agg->enrol);
	if (agg->captures)
		captures_begin_stop(agg->captures);
	index_check_stop(&agg->index_check);
	retention_stop(&agg->retention);
	quotas_stop(agg->quotas);
	while (n-- > 0) {
		list[n].stop(agg);
		log_info("AGG-PART", "part=%s state=down", list[n].name);
	}
}

static int start_parts(struct aggregator *agg, const struct part *list, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		int rc = list[i].start(agg, e);

		if (rc) {
			err_prefix(e, "%s", list[i].name);
			stop_parts(agg, list, i);
			return rc;
		}
	}
	return 0;
}

/* ---- what is read from the settings ---- */

static int read_rules(struct aggregator *agg, struct err *e)
{
	struct retention_rules *rules = &agg->retention.rules;

	rules->keep_ns = agg->conf.retain_ns;
	rules->keep_bytes = agg->conf.retain_bytes;
	return retention_add_runs(rules, &agg->conf.retain_run, e);
}

static int read_quotas(struct aggregator *agg, struct err *e)
{
	const struct quotas_conf conf = { .bytes = agg->conf.quota_bytes,
					  .sessions = (uint64_t)agg->conf.quota_sessions,
					  .runs = &agg->conf.quota_run };

	return quotas_new(&agg->quotas, &conf, e);
}

static void release_settings(struct aggregator *agg)
{
	quotas_free(agg->quotas);
	agg->quotas = NULL;
	secret_free(agg->token);
	secret_free(agg->link_key);
	agg->token = agg->link_key = NULL;
	retention_release(&agg->retention);
}

int aggregator_start(struct aggregator *agg, struct err *e)
{
	int rc = aggregator_check_conf(&agg->conf, e);

	if (!rc)
		rc = read_rules(agg, e);
	if (!rc)
		rc = read_quotas(agg, e);
	if (!rc && conf_is_set(agg->conf.token_file))
		rc = secret_load(&agg->token, agg->conf.token_file, e);
	if (rc) {
		release_settings(agg);
		return rc;
	}
	aggregator_warn_open_ports(agg);
	agg->started_mono_ns = now_mono_ns();
	agg->jobs.loop = agg->loop;
	if (!agg->patience.arm_ns)
		agg->patience.arm_ns = NS_PER_S;
	if (!agg->patience.credit_ns)
		agg->patience.credit_ns = CREDIT_PATIENCE_NS;
	if (!agg->patience.lost_ns)
		agg->patience.lost_ns = LOST_PATIENCE_NS;
	rc = start_parts(agg, parts, ARRAY_SIZE(parts), e);
	if (rc)
		release_settings(agg);
	return rc;
}

void aggregator_stop(struct aggregator *agg)
{
	stop_parts(agg, parts, ARRAY_SIZE(parts));
	release_settings(agg);
}

int aggregator_start_reads(struct aggregator *agg, struct err *e)
{
	int rc = read_quotas(agg, e);

	agg->started_mono_ns = now_mono_ns();
	agg->jobs.loop = agg->loop;
	if (!rc)
		rc = start_parts(agg, reading_parts, ARRAY_SIZE(reading_parts), e);
	if (rc) {
		quotas_free(agg->quotas);
		secret_free(agg->link_key);
	}
	return rc;
}

void aggregator_stop_reads(struct aggregator *agg)
{
	stop_parts(agg, reading_parts, ARRAY_SIZE(reading_parts));
	quotas_free(agg->quotas);
	secret_free(agg->link_key);
}
