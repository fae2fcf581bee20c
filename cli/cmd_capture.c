/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"
#include "cli/request.h"

struct conf {
	struct api_conf api;
	char *hosts, *job, *namespace, *ranks;
	int64_t duration_ns;
	char *run;
	struct conf_list set;
	struct conf_list tracer;
	bool help_settings;
	int64_t wait_ns;
	int64_t grace_ns, patience_ns;
	char *refine;
	char *at_step;
	int steps;
};

static const struct conf_field fields[] = {
	CONF(struct conf, hosts, "all",
	     "hosts to capture: all, NAME,NAME, LABEL=VALUE, ... (docs/selectors.md)"),
	CONF_ONCE(struct conf, job, NULL,
		  "the hosts of a job's pods, as --hosts job=JOB; see tutti jobs"),
	CONF_ONCE(struct conf, namespace, NULL, "with --job: the job of this namespace only"),
	CONF_ONCE(struct conf, ranks, NULL, "with --job: these ranks only, like 0-7,12"),
	CONF(struct conf, duration_ns, "2s", "length of the window"),
	CONF(struct conf, run, NULL, "name of the run that the session belongs to"),
	CONF(struct conf, set, NULL,
	     "KEY=VALUE for the tracers, like host_tracer_level=3; see --help-settings"),
	CONF_ONCE(struct conf, help_settings, NULL,
		  "list what --set takes, with types, ranges and defaults, and end"),
	CONF(struct conf, tracer, NULL, "record with this tracer only"),
	CONF_ONCE(struct conf, refine, NULL,
		  "events: compute from flows and barriers how far to move hosts' times"),
	CONF_ONCE(struct conf, at_step, NULL, "begin with this training step: a number, or next"),
	CONF_ONCE(struct conf, steps, "0", "length in steps; without it, --duration"),
	CONF(struct conf, wait_ns, "10m",
	     "longest wait for other captures that use the profilers; 0s = none"),
	CONF(struct conf, grace_ns, "0s",
	     "wait for hosts after the window, 1s to 2h: large profiles take long; 0s = 60s, or "
	     "twice "
	     "the window"),
	FOLLOW_FIELD(struct conf),
	API_FIELDS(struct conf),
	{ 0 }
};

static int put_steps(json_t *request, const struct conf *conf, struct err *e)
{
	const char *step = conf->at_step;
	char *end;
	long long number;

	if (conf->steps < 0)
		return err_set(e, ERR_INVALID, "--steps %d: use 1 or more", conf->steps);
	if (conf->steps)
		json_put_int(request, "steps", conf->steps);
	if (!step)
		return 0;
	errno = 0;
	number = strtoll(step, &end, 10);
	if (!strcmp(step, "next"))
		json_put_text(request, "at_step", step);
	else if (*step && !*end && !errno && number >= 0)
		json_put_int(request, "at_step", number);
	else
		return err_set(e, ERR_INVALID, "--at-step '%s': use a step's number, or next",
			       step);
	return 0;
}

/* "job=train,namespace=ml,rank in (0-7,12)" */
static int put_hosts(json_t *request, const struct conf *conf, struct err *e)
{
	struct buf selector = BUF_INIT;
	int rc;

	if (!conf->job && (conf->namespace || conf->ranks))
		return err_set(e, ERR_INVALID, "--namespace and --ranks need --job");
	if (!conf->job)
		return request_put_text(request, "hosts", "--hosts", conf->hosts, e);
	buf_addf(&selector, "job=%s", conf->job);
	if (conf->namespace)
		buf_addf(&selector, ",namespace=%s", conf->namespace);
	if (conf->ranks)
		buf_addf(&selector, ",rank in (%s)", conf->ranks);
	if (strcmp(conf->hosts, "all"))
		buf_addf(&selector, ",%s", conf->hosts);
	rc = request_put_text(request, "hosts", "--job", buf_str(&selector), e);
	buf_release(&selector);
	return rc;
}

static int fill_request(json_t *request, const struct conf *conf, struct err *e)
{
	int rc = put_hosts(request, conf, e);

	if (!rc)
		rc = request_put_text(request, "run", "--run", conf->run ? conf->run : "", e);
	if (!rc && conf->refine)
		rc = request_put_text(request, "refine", "--refine", conf->refine, e);
	json_put_int(request, "duration_ns", conf->duration_ns);
	json_put_int(request, "wait_ns", conf->wait_ns);
	if (conf->grace_ns)
		json_put_int(request, "grace_ns", conf->grace_ns);
	if (!rc)
		rc = request_put_settings(request, &conf->set, e);
	if (!rc)
		rc = request_put_tracers(request, &conf->tracer, e);
	return rc ? rc : put_steps(request, conf, e);
}

/* ---- --help-settings ---- */

static void print_default(const json_t *value)
{
	if (json_is_boolean(value))
		printf(" [%s]", json_is_true(value) ? "true" : "false");
	else if (json_is_integer(value))
		printf(" [%" JSON_INTEGER_FORMAT "]", json_integer_value(value));
	else if (json_is_string(value))
		printf(" [%s]", json_string_value(value));
}

static void print_values(const json_t *row)
{
	const json_t *values = json_object_get(row, "values");
	int64_t hosts = json_get_int(row, "hosts");
	size_t i;
	json_t *value;

	if (!strcmp(json_get_text(row, "type"), "int"))
		printf(" (%" PRId64 " to %" PRId64 ")", json_get_int(row, "min"),
		       json_get_int(row, "max"));
	json_array_foreach(values, i, value)
		printf("%s%s", i ? ", " : " (", json_string_value(value));
	if (json_array_size(values))
		printf(")");
	print_default(json_object_get(row, "default"));
	if (hosts)
		printf(" (on %" PRId64 " host%s)", hosts, hosts == 1 ? "" : "s");
	printf("\n");
}

static int help_settings(const struct conf *conf, struct err *e)
{
	json_t *doc = NULL;
	size_t i;
	json_t *row;
	int rc = api_call(&conf->api, "GET", "/api/v1/settings", NULL, &doc, e);

	if (rc)
		return rc;
	if (conf->api.json) {
		api_print(doc);
	} else {
		json_array_foreach(json_object_get(doc, "settings"), i, row)
		{
			char left[96];

			snprintf(left, sizeof(left), "--set %s=%s", json_get_text(row, "name"),
				 json_get_text(row, "type"));
			printf("  %-42s %s", left, json_get_text(row, "help"));
			print_values(row);
		}
	}
	json_decref(doc);
	return 0;
}

/* ---- the capture ---- */

static int capture_hosts(const struct conf *conf, struct err *e)
{
	json_t *request = json_object(), *capture = NULL;
	int rc = fill_request(request, conf, e);

	if (!rc)
		rc = request_post(&conf->api, "capture", "/api/v1/captures", request, &capture, e);
	if (!rc)
		rc = follow_capture(&conf->api, json_get_text(capture, "session"),
				    conf->patience_ns, e);
	json_decref(capture);
	json_decref(request);
	return rc;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;

	(void)argc;
	(void)argv;
	return conf->help_settings ? help_settings(conf, e) : capture_hosts(conf, e);
}

const struct cmd cmd_capture = {
	.name = "capture",
	.summary = "profile hosts together and store the session",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
