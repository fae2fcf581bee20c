/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's configuration and its parts, in the order in which they are started.
 */
#ifndef AGGREGATOR_AGGREGATOR_H
#define AGGREGATOR_AGGREGATOR_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/conf.h"
#include "base/loop.h"

struct aggregator_conf {
	char *store; /* URL */
	char *http; /* address of HTTP */
	char *grpc; /* address of gRPC: control, ingest, ProfilerService */
	char *probe; /* address of the time probes, UDP */
	char *spool; /* directory for uploads under way */
	int64_t lead_ns; /* from request to T0 */
	int64_t grace_ns; /* from T1 to the commit at the latest */
	int64_t causality_ns; /* for causality_check() of a session */
	char *cert, *key, *ca; /* TLS on gRPC and HTTP; ca demands agents' certificates */
	char *token_file; /* the secret that people who change something have to show; or NULL */
	bool insecure; /* listen in plaintext beyond loopback */
	char *log_level;
};

extern const struct conf_table aggregator_conf_table; /* conf.c */

struct aggregator {
	struct aggregator_conf conf;
	struct loop *loop; /* of whoever starts the aggregator */
	struct store *store;
	struct rpc *rpc;
	struct registry *registry;
	struct captures *captures;
	struct events *events;
	struct ingest *ingest;
	struct profiler_service *profiler;
	struct time_service *time_service;
	struct rpc_server *rpc_server;
	struct http_server *http;
	char *token; /* what is in token_file; NULL = nobody has to */
	int grpc_port, http_port, probe_port;
	uint64_t
		clock_epoch; /* of the session clock: random, kept over a restart on the same boot */
	bool clock_kept; /* the session clock is that of an earlier run */
	json_t *claimed; /* an object: sessions that a worker deletes, or reads for a retry */
	json_t *plans; /* of captures that an earlier run left, until they are carried on; or NULL */
	int64_t session_clock_shift_ns; /* session clock = CLOCK_MONOTONIC_RAW + this */
	int64_t arm_patience_ns; /* after T0, or the lead if that is longer: for answers to Arm */
	int64_t credit_patience_ns; /* with who has a credit and sends nothing, while others wait */
	int64_t lost_patience_ns; /* a link that broke may come back within this */
	int64_t started_mono_ns;
	bool stopping; /* nothing new is begun any more */
	bool ready; /* the store takes writes */
	struct err not_ready; /* why not */
	struct loop_timer ready_timer; /* tries again */
	unsigned int jobs; /* given to workers, or to later turns of the loop, not yet done */
	struct aggregator_stats { /* for /metrics */
		uint64_t captures_committed, captures_failed, captures_shared, hosts_failed;
		uint64_t uploads, upload_bytes, upload_errors;
		uint64_t messages, armed; /* of agents */
		uint64_t bad_messages, probes, probes_dropped, probe_bad_stamps;
	} stats;
	int64_t probe_said_mono_ns; /* when bad probes were last logged */
};

/* Starts every part; `conf` and `loop` are set, perhaps the two patiences, the rest is zero. On failure nothing is left
 * running and the error names the part. */
MUST_CHECK int aggregator_start(struct aggregator *agg, struct err *e);

/* Commits what is there of captures under way, waits for the workers, stops every part. */
void aggregator_stop(struct aggregator *agg);

/* The session clock now; reads as Unix ns, never stepped. */
int64_t aggregator_session_now(const struct aggregator *agg);

/* loop_work() that aggregator_stop() waits for: `done` always finds every part alive. */
void aggregator_work(struct aggregator *agg, loop_fn run, loop_fn done, void *arg);

#endif
