/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's configuration and its parts. Only the files beside it see this: each
 * part is given an environment of its own.
 */
#ifndef AGGREGATOR_AGGREGATOR_H
#define AGGREGATOR_AGGREGATOR_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "aggregator/access/principal.h"
#include "aggregator/captures/capture.h"
#include "aggregator/ingest/ingest.h"
#include "aggregator/retention/quotas.h"
#include "aggregator/retention/retention.h"
#include "aggregator/sessions/index_check.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/time/session_clock.h"
#include "base/conf.h"
#include "base/jobs.h"
#include "base/loop.h"

struct aggregator_conf {
	char *store; /* URL */
	char *http; /* address of HTTP */
	struct conf_list http_host; /* further names by which HTTP is reached */
	char *perfetto_url, *xprof_url; /* other viewers that the page leads to */
	struct conf_list http_client; /* common names whose certificates do what the token does */
	char *grpc; /* address of gRPC: control, ingest, ProfilerService */
	char *probe; /* address of the time probes, UDP */
	char *spool; /* directory for uploads under way */
	char *replica; /* its name among several aggregators on this store; NULL = it is the only one */
	char *replica_url; /* where its HTTP is reached; NULL = not said */
	int64_t lease_ns; /* how long another one must have been silent before this one leads */
	char *upload; /* "auto" or "via-aggregator" */
	char *reads; /* the same */
	int64_t lead_ns; /* from request to T0 */
	int64_t grace_ns; /* least grace of a capture whose request gives none */
	/* longest time that a stop of the aggregator may take; 0 = no limit */
	int64_t stop_limit_ns;
	int64_t causality_ns; /* longest causality_check() of a session; 0 = no check */
	int64_t retain_ns; /* how long sessions stay; 0 = for ever */
	uint64_t retain_bytes; /* of all sessions, at most; 0 = any number */
	struct conf_list retain_run; /* RUN=TIME */
	uint64_t quota_bytes; /* of all sessions, beyond which none begins; 0 = any number */
	int quota_sessions; /* the same for their number */
	struct conf_list quota_run; /* RUN=BYTES,SESSIONS */
	int limit_captures, limit_starts, limit_streams; /* of one caller: limits.h */
	uint64_t limit_bytes;
	int64_t retain_period_ns; /* between two looks for old sessions */
	char *cert, *key, *ca; /* TLS on gRPC and HTTP; ca demands agents' certificates */
	char *enrol; /* folder of the authority that gives agents certificates; NULL = none */
	char *enrol_cert,
		*enrol_key; /* of an authority that is given; NULL = it is in the folder */
	char *enrol_audience, *enrol_account; /* of the tokens of agents' pods; empty: none */
	int64_t enrol_life_ns; /* of a certificate */
	struct conf_list enrol_name; /* names by which agents reach an aggregator without --cert */
	/* most hosts of one address, where no certificates prove names; 0 = no limit */
	int hosts_per_address;
	uint64_t views_limit; /* bytes of the indexes of sessions that were looked at, at most */
	/* the API server to list pods from: "in-cluster", a URL, or NULL; and how to ask it */
	char *kubernetes, *kubernetes_token_file, *kubernetes_ca;
	char *kubernetes_people; /* the audience of people's tokens; empty: none */
	int64_t kubernetes_people_hold_ns;
	int64_t kubernetes_retry_ns; /* the first pause after a failure of it */
	char *token_file; /* the secret of an admin; or NULL */
	char *tokens; /* file of static tokens with roles; or NULL */
	/* the OpenID provider of people; NULL = none */
	char *oidc_issuer, *oidc_audience, *oidc_client, *oidc_ca;
	char *oidc_name_claim, *oidc_role_claim;
	int64_t oidc_fetch_ns; /* between two fetches of its keys, at least */
	int64_t oidc_hold_ns; /* how old its keys may get */
	struct conf_list oidc_grant; /* GROUP=ROLE[:NAMESPACE,...] */
	char *audit; /* file of the audit log; or NULL */
	uint64_t audit_size; /* bytes from which on it goes on in another file */
	char *anonymous; /* role of callers who show nothing: "auto", or its name */
	bool insecure; /* listen in plaintext beyond loopback */
	char *log_level;
	char *log_format;
};

extern const struct conf_table aggregator_conf_table; /* conf.c */

/* conf.c: what the settings say together; the error names the setting. */
MUST_CHECK int aggregator_check_conf(const struct aggregator_conf *conf, struct err *e);

struct aggregator {
	struct aggregator_conf conf;
	struct loop *loop; /* of the caller of aggregator_start() */
	/* called when the store is open, before a library starts a thread; or NULL */
	int (*store_opened)(struct aggregator *agg, struct err *e);
	/* called when another replica may lead from now on; does not return. Needed with conf.replica */
	void (*lease_lost)(const char *why);
	struct capture_patience patience; /* a member that is 0 gets its default */
	ingest_check check_file; /* NULL: ingest_check_xspace() */
	struct jobs jobs;
	struct replica *replica; /* NULL = the only one */
	const struct leader
		*leader; /* of the reading half of a follower: who leads; NULL = it leads */
	uint64_t term; /* as the leader; 0 = the only one */
	char *token; /* the content of token_file; NULL = none */
	char *link_key; /* signs links to files */
	struct session_clock clock;
	struct session_store store;
	struct index_check index_check;
	struct quotas *quotas;
	struct imports *imports;
	struct removals *removals;
	struct retention retention;
	json_t *recoverable; /* captures that an earlier run left, until they are carried on; or NULL */
	struct registry *registry;
	struct pod_failures *pod_failures;
	struct pods *pods;
	struct access *access;
	struct audit *audit; /* NULL = none */
	struct enrol *enrol; /* NULL = none */
	struct time_service *time;
	struct captures *captures;
	char *views_folder;
	struct views *views;
	struct api *api;
	struct profiler_service *profiler;
	struct ingest *ingest;
	struct control *control;
	struct rpc *rpc;
	struct rpc_server *rpc_server;
	struct http_server *http;
	int grpc_port, http_port, probe_port;
	int64_t started_mono_ns;
};

/*
 * Starts every part. The caller has set `conf` and `loop`, and may have set `store_opened`, `lease_lost`, `patience`
 * and `check_file`; the rest is zero. On failure no part is left running, and the error names the part that failed.
 */
MUST_CHECK int aggregator_start(struct aggregator *agg, struct err *e);

/*
 * The half of an aggregator that answers reads while another one leads. The caller has set `conf`, `loop`, `leader`, and
 * `token`, which it borrows; the rest is zero. It writes nothing to the store but lines of the index that are
 * missing. After an error, and after the stop, `agg` is of no use.
 */
MUST_CHECK int aggregator_start_reads(struct aggregator *agg, struct err *e);
void aggregator_stop_reads(struct aggregator *agg);

/* people.c: who callers are, and the audit log. Closing is for after all jobs; a capture that began is noted. */
MUST_CHECK int aggregator_open_access(struct aggregator *agg, struct err *e);
void aggregator_close_access(struct aggregator *agg);
void aggregator_note_started(const struct aggregator *agg, const struct capture *c);
void aggregator_note_stopped(const struct aggregator *agg, const struct capture *c, const char *by);

/* enrolment.c: the authority of agents. Opened after the audit log; closing is for after all calls and jobs. */
MUST_CHECK int aggregator_open_enrolment(struct aggregator *agg, struct err *e);
void aggregator_close_enrolment(struct aggregator *agg);
bool aggregator_has_certificates(const struct aggregator *agg); /* that prove agents' names */

/* grpc.c: a part of aggregator.c's table. */
MUST_CHECK int aggregator_grpc_start(struct aggregator *agg, struct err *e);
void aggregator_grpc_stop(struct aggregator *agg);

/* open_ports.c: one log line for each port that other hosts can reach: what any peer may do there. */
void aggregator_warn_open_ports(const struct aggregator *agg);

/*
 * open_ports.c: the role of callers of HTTP who show nothing. As it is set; else none where people have tokens of their own,
 * or where other hosts reach HTTP and there is a token or TLS; a viewer where there is a token; an admin elsewhere. The role's
 * name is checked already.
 */
enum role aggregator_anonymous_role(const struct aggregator *agg);

/* Waits for the workers, stops every part. Captures under way are left to the next start. */
void aggregator_stop(struct aggregator *agg);

#endif
