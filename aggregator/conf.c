/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/aggregator.h"

#include "proto/limits.h"

#define RETAIN_MAX_NS	     9e18
#define RETAIN_PERIOD_MIN_NS 1e8

#define KUBERNETES_RETRY_MIN_NS 1e7
#define KUBERNETES_RETRY_MAX_NS 6e10

static const struct conf_field fields[] = {
	CONF(struct aggregator_conf, store, "file:///var/lib/tutti",
	     "where sessions are kept: file:///DIR or s3://BUCKET/PREFIX (docs/storage.md)"),
	CONF(struct aggregator_conf, http, "127.0.0.1:7400",
	     "address of the HTTP API and the page"),
	CONF(struct aggregator_conf, http_host, NULL,
	     "name by which browsers and clients reach HTTP, besides the address and this "
	     "machine's "
	     "name; may be repeated"),
	CONF(struct aggregator_conf, http_client, NULL,
	     "common name of a client certificate by --ca that may capture and delete over HTTP, "
	     "as "
	     "with the token; may be repeated"),
	CONF(struct aggregator_conf, grpc, "127.0.0.1:7401",
	     "address of gRPC: agents and ProfilerService clients"),
	CONF(struct aggregator_conf, probe, "127.0.0.1:7403", "UDP address of the time probes"),
	CONF(struct aggregator_conf, spool, "/var/lib/tutti/spool",
	     "directory for uploads under way"),
	CONF(struct aggregator_conf, upload, "auto",
	     "how files get into the store. auto: agents put them there by grants, if the store "
	     "makes grants; via-aggregator: always through this program"),
	CONF(struct aggregator_conf, lead_ns, "500ms",
	     "least time from a request to T0, for arming the agents"),
	CONF(struct aggregator_conf, grace_ns, "60s",
	     "time after a window to wait for its hosts, at least; twice the window if that is "
	     "longer"),
	CONF(struct aggregator_conf, causality_ns, "500ms",
	     "longest causality check of events that hosts share; 0s = no check"),
	CONF(struct aggregator_conf, stop_limit_ns, "10s",
	     "longest time for stopping; 0s = no limit"),
	CONF_RANGE(struct aggregator_conf, retain_ns, "0", 0, RETAIN_MAX_NS,
		   "how long sessions stay, like 30d; 0 = until they are deleted"),
	/* the member and its unit: the name of a flag ends before the unit */
	{ "retain_bytes_bytes", CONF_SIZE, offsetof(struct aggregator_conf, retain_bytes), "0",
	  "most bytes of all sessions together, like 500G: the oldest go; 0 = any number", false, 0,
	  0 },
	CONF(struct aggregator_conf, retain_run, NULL,
	     "how long the sessions of one run stay instead: RUN=TIME, like nightly=7d; "
	     "'=TIME' for sessions without a run, 0 = until they are deleted; may be "
	     "repeated"),
	{ "quota_bytes_bytes", CONF_SIZE, offsetof(struct aggregator_conf, quota_bytes), "0",
	  "bytes of all sessions from which on no further one begins, like 1T; 0 = any number",
	  false, 0, 0 },
	CONF_RANGE(struct aggregator_conf, quota_sessions, "0", 0, 1e9,
		   "most sessions: beyond it no further one begins; 0 = any number"),
	CONF(struct aggregator_conf, quota_run, NULL,
	     "quota of one run: RUN=BYTES,SESSIONS, like nightly=200G,50 (0 = any number); "
	     "'=BYTES,SESSIONS' for sessions without a run; may be repeated"),
	CONF_RANGE(struct aggregator_conf, retain_period_ns, "10m", RETAIN_PERIOD_MIN_NS,
		   RETAIN_MAX_NS, "time between two looks for sessions that are to go"),
	CONF(struct aggregator_conf, cert, NULL, "PEM file with the certificate of gRPC and HTTP"),
	CONF(struct aggregator_conf, key, NULL, "PEM file with its key"),
	CONF(struct aggregator_conf, ca, NULL,
	     "PEM file: agents and gRPC clients need a certificate of this authority"),
	CONF_RANGE(struct aggregator_conf, hosts_per_address, "256", 0, LIMIT_HOSTS,
		   "most hosts that may connect from one address while no --ca proves their names, "
		   "and most connections from it that belong to no known agent; 0 = no limit"),
	{ "views_limit_bytes", CONF_SIZE, offsetof(struct aggregator_conf, views_limit), "8G",
	  "most bytes of the indexes that are kept of sessions that were opened in a viewer, in "
	  "the spool's "
	  "folder 'views'",
	  false, 0, 0 },
	CONF(struct aggregator_conf, kubernetes, NULL,
	     "list and watch the pods of this cluster, for selectors as job=NAME: in-cluster, or "
	     "the API "
	     "server's URL; empty: no"),
	CONF(struct aggregator_conf, kubernetes_token_file, NULL,
	     "file with the token for an API server that is given by its URL"),
	CONF(struct aggregator_conf, kubernetes_ca, NULL,
	     "PEM file with its authorities; the system's without it"),
	CONF_RANGE(
		struct aggregator_conf, kubernetes_retry_ns, "1s", KUBERNETES_RETRY_MIN_NS,
		KUBERNETES_RETRY_MAX_NS,
		"first pause after a failure of the API server; twice as long after each further "
		"one, up to 64 times"),
	CONF(struct aggregator_conf, token_file, NULL,
	     "file with a secret: callers need it to capture or delete"),
	CONF(struct aggregator_conf, insecure, NULL, "listen in plaintext beyond loopback"),
	CONF(struct aggregator_conf, log_level, "info", "error, warn, info or debug"),
	{ 0 }
};

const struct conf_table aggregator_conf_table = {
	.prog = "tutti-aggregator",
	.summary = "Captures the hosts of a fleet together, stores the sessions and serves them.",
	.fields = fields,
};
