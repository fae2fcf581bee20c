/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's configuration: one table makes the flags, the environment variables, the file and --help. */
#ifndef AGENT_CONF_H
#define AGENT_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"

struct file_keeper;
struct tracer_ops;

struct agent_conf {
	/* All drivers of the build, NULL-terminated; set by main. */
	const struct tracer_ops *const *drivers;
	struct conf_part *driver_confs; /* one per driver, by tracer_confs_new() */
	struct file_keeper *
		files; /* reads files of programs, which may hang; set by main. NULL: the agent's threads do */
	char *host; /* this host's name in sessions; default: gethostname() */
	char *aggregator; /* host:port of its gRPC */
	struct conf_list label; /* KEY=VALUE */
	char *spool; /* directory for files that are not yet delivered */
	uint64_t spool_limit_bytes;
	uint64_t file_limit_bytes; /* of each file of a session */
	char *listen; /* own tensorflow.ProfilerService; "" = none */
	char *local_socket; /* ipc:// of the local socket; "" = none */
	char *tracers; /* names, separated by commas; NULL or "" = all */
	int ring_seconds; /* each tracer keeps records this long */
	uint64_t ring_bytes; /* largest memory of each tracer for its records */
	char *max_cpu; /* "1%": most that the tracers may take of one CPU; NULL or "" = no limit */
	double max_cpu_percent; /* the same; 0 = no limit; by agent_conf_finish() */
	uint64_t max_rss_bytes; /* largest resident memory; 0 = no limit */
	char *cert, *key, *ca; /* TLS towards the aggregator and on `listen` */
	char *enrol_token; /* file; the aggregator gives a certificate for it; NULL = none */
	char *store_ca; /* PEM file: authorities of the store, for grants; NULL = the system's */
	char *aggregator_name; /* expected in its certificate; NULL: the name dialled */
	bool insecure; /* listen in plaintext beyond loopback */
	int64_t reconnect_max_ns; /* longest pause between two attempts to connect */
	int64_t stop_limit_ns; /* from SIGTERM to the end */
	int64_t back_within_ns; /* another agent follows within this time; 0 = none does */
	char *log_level;
	char *log_format;
	int64_t test_clock_offset_ns; /* tests only */
	double test_clock_drift_ppm; /* tests only */
};

/* Fills in the default host name and refuses values that contradict each other. Call once, after
 * conf_load(). */
MUST_CHECK int agent_conf_finish(struct agent_conf *conf, struct err *e);

/* All flags except those of the drivers, which tracer_confs_new() adds as further parts of the table. */
extern const struct conf_table agent_conf_table;

#endif
