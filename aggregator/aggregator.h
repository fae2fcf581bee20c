/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's configuration and its parts, in the order in which main.c starts them.
 */
#ifndef AGGREGATOR_AGGREGATOR_H
#define AGGREGATOR_AGGREGATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"

struct aggregator_conf {
	char *store;			/* URL */
	char *http;			/* address of HTTP */
	char *grpc;			/* address of gRPC: control, ingest, ProfilerService */
	char *probe;			/* address of the time probes, UDP */
	char *spool;			/* directory for uploads under way */
	int64_t lead_ns;		/* from request to T0 */
	int64_t grace_ns;		/* from T1 to the commit at the latest */
	char *cert, *key, *ca;		/* TLS on gRPC and HTTP; ca demands agents' certificates */
	bool insecure;			/* listen in plaintext beyond loopback */
	char *log_level;
};

extern const struct conf_table aggregator_conf_table;	/* conf.c */

struct aggregator {
	struct aggregator_conf conf;
	struct loop *loop;
	struct store *store;
	struct rpc *rpc;
	struct rpc_server *rpc_server;
	struct registry *registry;
	struct captures *captures;
	struct udp *probe;		/* time_service.c */
	struct http_server *http;
	struct api *api;
	int grpc_port, http_port, probe_port;
	uint64_t clock_epoch;		/* random, new at every start */
	int64_t session_clock_shift_ns;	/* session clock = CLOCK_MONOTONIC_RAW + this */
	struct aggregator_stats {	/* for /metrics */
		uint64_t captures_committed, captures_failed, hosts_failed;
		uint64_t uploads, upload_bytes, upload_errors;
		uint64_t bad_messages, probes, probes_dropped;
	} stats;
};

/* The session clock now; reads as Unix ns, never stepped. */
int64_t aggregator_session_now(const struct aggregator *agg);

#endif
