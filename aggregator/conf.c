/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/aggregator.h"

static const struct conf_field fields[] = {
	CONF(struct aggregator_conf, store, "file:///var/lib/tutti", "where sessions are kept"),
	CONF(struct aggregator_conf, http, "127.0.0.1:7400",
	     "address of the HTTP API and the page"),
	CONF(struct aggregator_conf, grpc, "127.0.0.1:7401",
	     "address of gRPC: agents and ProfilerService clients"),
	CONF(struct aggregator_conf, probe, "127.0.0.1:7403", "UDP address of the time probes"),
	CONF(struct aggregator_conf, spool, "/var/lib/tutti/spool",
	     "directory for uploads under way"),
	CONF(struct aggregator_conf, lead_ns, "500ms",
	     "from a request to T0, at least: agents get ready meanwhile"),
	CONF(struct aggregator_conf, grace_ns, "30s",
	     "from the end of the window to the commit at the latest"),
	CONF(struct aggregator_conf, causality_ns, "500ms",
	     "at most, to check events of different hosts for causality; 0s = no check"),
	CONF(struct aggregator_conf, cert, NULL, "PEM file with the certificate of gRPC and HTTP"),
	CONF(struct aggregator_conf, key, NULL, "PEM file with its key"),
	CONF(struct aggregator_conf, ca, NULL,
	     "PEM file: agents and gRPC clients must show a certificate by this authority"),
	CONF(struct aggregator_conf, token_file, NULL,
	     "file with a secret: callers who capture or delete over HTTP have to show it"),
	CONF(struct aggregator_conf, insecure, NULL, "listen in plaintext beyond loopback"),
	CONF(struct aggregator_conf, log_level, "info", "error, warn, info or debug"),
	{ 0 }
};

const struct conf_table aggregator_conf_table = {
	.prog = "tutti-aggregator",
	.summary = "Knows the fleet's hosts, plans captures, keeps sessions, serves them.",
	.fields = fields,
};
