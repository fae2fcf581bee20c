/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/aggregator.h"

#include "proto/limits.h"

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
	CONF(struct aggregator_conf, lead_ns, "500ms",
	     "least time from a request to T0, for arming the agents"),
	CONF(struct aggregator_conf, grace_ns, "60s",
	     "time after a window to wait for its hosts, at least; twice the window if that is "
	     "longer"),
	CONF(struct aggregator_conf, causality_ns, "500ms",
	     "longest causality check of events that hosts share; 0s = no check"),
	CONF(struct aggregator_conf, stop_limit_ns, "10s",
	     "longest time for stopping; 0s = no limit"),
	CONF(struct aggregator_conf, cert, NULL, "PEM file with the certificate of gRPC and HTTP"),
	CONF(struct aggregator_conf, key, NULL, "PEM file with its key"),
	CONF(struct aggregator_conf, ca, NULL,
	     "PEM file: agents and gRPC clients need a certificate of this authority"),
	CONF_RANGE(struct aggregator_conf, hosts_per_address, "256", 0, LIMIT_HOSTS,
		   "most hosts that may connect from one address while no --ca proves their names, "
		   "and most connections from it that belong to no known agent; 0 = no limit"),
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
