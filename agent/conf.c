/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/conf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "net/address.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/names.h"

#define YEAR_NS (366 * 24 * 3600 * NS_PER_S)

/* The table drops the suffix _bytes of a name, and the flag would be --ring. A second suffix makes it
 * --ring-bytes. */
#define RING_BYTES \
	{ \
		"ring_bytes_bytes", CONF_SIZE, offsetof(struct agent_conf, ring_bytes), "16M", \
			"largest memory for the records of each tracer; a CPU sample takes 16 " \
			"bytes, so 16M holds 60 s of 176 CPUs at 99 Hz", \
			false, 64 << 10, 1 << 30 \
	}

static const struct conf_field fields[] = {
	CONF(struct agent_conf, host, NULL,
	     "this host's name in sessions; unset: SLURMD_NODENAME, or the system's host name"),
	CONF(struct agent_conf, aggregator, "127.0.0.1:7401",
	     "host:port of the aggregator's gRPC; "
	     "of several, with commas between, the leader is used"),
	CONF(struct agent_conf, label, NULL,
	     "KEY=VALUE to select this host by; may be repeated; an agent in a job of Slurm has "
	     "slurm_job and job, too"),
	CONF(struct agent_conf, spool, "/var/tmp/tutti-agent",
	     "directory for files that are not yet delivered"),
	CONF(struct agent_conf, spool_limit_bytes, "8G", "largest size of the spool"),
	CONF_RANGE(struct agent_conf, file_limit_bytes, "2000000000", 64 << 10,
		   LIMIT_XSPACE_FILE_BYTES,
		   "largest file of a session; more data goes into further files"),
	CONF(struct agent_conf, listen, "",
	     "address of this agent's own ProfilerService; empty: none"),
	CONF(struct agent_conf, local_socket, "ipc:///run/tutti/agent.ipc",
	     "local socket for processes of this host; empty: none"),
	CONF(struct agent_conf, tracers, NULL,
	     "names of the tracers to run, separated by commas; unset: all"),
	CONF_RANGE(struct agent_conf, ring_seconds, "60", 1, 3600,
		   "seconds of records that each tracer keeps while no capture is under way"),
	RING_BYTES,
	CONF(struct agent_conf, max_cpu, "",
	     "most that all tracers together may take of one CPU, like 1%; above it the most "
	     "expensive "
	     "ones record less; empty: no limit"),
	CONF_RANGE(struct agent_conf, max_rss_bytes, "0", 0, 1 << 30,
		   "memory of this agent above which rings keep less; 0: no limit"),
	CONF(struct agent_conf, cert, NULL, "PEM file: this agent's certificate"),
	CONF(struct agent_conf, key, NULL, "PEM file: its private key"),
	CONF(struct agent_conf, ca, NULL,
	     "PEM file: the authority that signs peers' certificates; switches TLS on"),
	CONF(struct agent_conf, enrol_token, NULL,
	     "file with a token for which the aggregator gives this host its certificate, instead "
	     "of "
	     "--cert (docs/security.md)"),
	CONF(struct agent_conf, store_ca, NULL,
	     "PEM file: the authority that signs the store's certificate; unset: the system's"),
	CONF(struct agent_conf, aggregator_name, NULL,
	     "name in the aggregator's certificate, if not the one dialled"),
	CONF_RANGE(struct agent_conf, reconnect_max_ns, "20s", 10 * NS_PER_MS, 3600 * NS_PER_S,
		   "longest pause between two attempts to connect to the aggregator"),
	CONF_RANGE(struct agent_conf, stop_limit_ns, "10s", 0, LIMIT_BACK_NS,
		   "longest time from SIGTERM to the end: windows that end within half of it are "
		   "finished, all others end at once"),
	CONF_RANGE(struct agent_conf, back_within_ns, "0s", 0, LIMIT_BACK_NS,
		   "after SIGTERM another agent follows within this time, as in a rolling update: "
		   "captures wait for it; 0: none does"),
	CONF(struct agent_conf, insecure, NULL, "listen in plaintext beyond loopback"),
	CONF(struct agent_conf, log_level, "info", "error, warn, info or debug"),
	CONF(struct agent_conf, log_format, "text", "text, or json: one object a line"),
	CONF_RANGE(struct agent_conf, test_clock_offset_ns, "0", -YEAR_NS, YEAR_NS,
		   "tests only: shifts this host's clock by this much"),
	CONF_RANGE(struct agent_conf, test_clock_drift_ppm, "0", -1000, 1000,
		   "tests only: makes this host's clock run this much faster"),
	{ 0 }
};

const struct conf_table agent_conf_table = {
	.prog = "tutti-agent",
	.summary = "Runs the tracers of this host and answers the aggregator's capture requests.",
	.fields = fields,
};

static int default_host(struct agent_conf *conf, struct err *e)
{
	const char *node = getenv("SLURMD_NODENAME");
	char name[256] = "";

	if (conf->host && *conf->host)
		return 0;
	if (node && *node)
		snprintf(name, sizeof(name), "%s", node);
	else if (gethostname(name, sizeof(name) - 1))
		return err_errno(e, "this host's name (set one with --host)");
	free(conf->host);
	conf->host = xstrdup(name);
	return 0;
}

static int parse_max_cpu(struct agent_conf *conf, struct err *e)
{
	const char *text = conf->max_cpu ? conf->max_cpu : "";
	char *end;

	conf->max_cpu_percent = 0;
	if (!*text)
		return 0;
	conf->max_cpu_percent = strtod(text, &end);
	if (end == text || strcmp(end, *end ? "%" : "") || !(conf->max_cpu_percent >= 0.01) ||
	    conf->max_cpu_percent > 6400)
		return err_set(e, ERR_INVALID,
			       "max-cpu '%.40s': expected a part of one CPU from 0.01%% to 6400%%",
			       text);
	return 0;
}

static bool has_label(const struct agent_conf *conf, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < conf->label.n; i++)
		if (!strncmp(conf->label.items[i], key, len) && conf->label.items[i][len] == '=')
			return true;
	return false;
}

/* What srun says of its job, so that `tutti capture --job NAME` finds the hosts of one as it does in a cluster. */
static void add_slurm_labels(struct agent_conf *conf)
{
	static const char *const labels[][2] = { { "slurm_job", "SLURM_JOB_ID" },
						 { "job", "SLURM_JOB_NAME" } };

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		const char *value = getenv(labels[i][1]);
		struct conf_list *list = &conf->label;

		if (!value || !text_is_clean(value, LIMIT_LABEL_BYTES) ||
		    has_label(conf, labels[i][0]) || list->n >= LIMIT_LABELS)
			continue;
		list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
		list->items[list->n++] = xasprintf("%s=%s", labels[i][0], value);
	}
}

static int check_labels(const struct agent_conf *conf, struct err *e)
{
	if (conf->label.n > LIMIT_LABELS)
		return err_set(e, ERR_LIMIT, "%zu labels: at most %d", conf->label.n, LIMIT_LABELS);
	for (size_t i = 0; i < conf->label.n; i++) {
		const char *text = conf->label.items[i];
		const char *eq = strchr(text, '=');

		if (!eq || eq == text || eq - text > LIMIT_LABEL_BYTES ||
		    !text_is_clean(eq, LIMIT_LABEL_BYTES) ||
		    !text_is_clean(text, 2 * LIMIT_LABEL_BYTES))
			return err_set(e, ERR_INVALID, "label '%.60s': expected KEY=VALUE", text);
	}
	return 0;
}

static int check_tls(const struct agent_conf *conf, struct err *e)
{
	int rc;

	if (!conf->cert != !conf->key)
		return err_set(e, ERR_INVALID, "cert and key: give both or none");
	if (conf->enrol_token && *conf->enrol_token && (conf->cert || !conf->ca || !*conf->ca))
		return err_set(e, ERR_INVALID,
			       "enrol-token needs --ca, for the token is shown to an aggregator of "
			       "that authority only, and no --cert");
	if (!conf->listen || !*conf->listen)
		return 0;
	rc = address_check_listener(conf->listen, conf->cert && *conf->cert, conf->insecure, e);
	/* Without an authority any caller from another host would get this host's samples. */
	if (!rc && !conf->insecure && !(conf->ca && *conf->ca) &&
	    address_check_listener(conf->listen, false, false, e))
		rc = err_set(e, ERR_DENIED,
			     "%s can be reached from other hosts: it also needs --ca",
			     conf->listen);
	return rc;
}

int agent_conf_finish(struct agent_conf *conf, struct err *e)
{
	int rc = default_host(conf, e);

	add_slurm_labels(conf);
	if (!rc)
		rc = name_check_host(conf->host, e);
	if (!rc)
		rc = parse_max_cpu(conf, e);
	if (!rc)
		rc = check_labels(conf, e);
	if (!rc)
		rc = check_tls(conf, e);
	return rc;
}
