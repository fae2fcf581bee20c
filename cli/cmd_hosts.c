/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"

static void print_labels(const json_t *host)
{
	json_t *labels = json_object_get(host, "labels");
	const char *key;
	json_t *value;

	json_object_foreach(labels, key, value) printf("  %s=%s", key, json_string_value(value));
}

/* "rings reach back: cpu 58 s, metrics 60 s" */
static void print_rings(const json_t *host)
{
	int64_t now_ns = json_get_int(host, "seen_ns");
	const char *separator = "    rings reach back: ";
	const json_t *t;
	size_t i;

	json_array_foreach(json_object_get(host, "tracers"), i, t)
	{
		int64_t begin_ns = json_get_int(t, "begin_ns");

		if (!begin_ns)
			continue;
		printf("%s%s %.0f s", separator, json_get_text(t, "name"),
		       (double)(now_ns - begin_ns) / (double)NS_PER_S);
		separator = ", ";
	}
	if (*separator == ',')
		putchar('\n');
}

static void print_tracers(const json_t *host)
{
	const json_t *t;
	size_t i;

	json_array_foreach(json_object_get(host, "tracers"), i, t)
	{
		if (strcmp(json_get_text(t, "state"), "ok"))
			printf("    tracer %s is %s: %s\n", json_get_text(t, "name"),
			       json_get_text(t, "state"), json_get_text(t, "reason"));
	}
}

static void print_jobs(const json_t *host)
{
	int64_t more = json_get_int(host, "more_jobs");
	const json_t *j;
	size_t i;

	json_array_foreach(json_object_get(host, "jobs"), i, j)
	{
		const char *framework = json_get_text(j, "framework");

		printf("    job %-8" PRId64 " %-28s %-10s %-21s %s\n", json_get_int(j, "pid"),
		       json_get_text(j, "command"), *framework ? framework : "-",
		       *json_get_text(j, "address") ? json_get_text(j, "address") : "-",
		       json_get_text(j, "state"));
	}
	if (more)
		printf("    and %" PRId64 " more jobs\n", more);
}

static void print_host(const json_t *host)
{
	const json_t *clock = json_object_get(host, "clock");
	const json_t *steps = json_object_get(host, "steps");
	char bound[16];

	printf("%-20s %-10s %-24s", json_get_text(host, "host"), json_get_text(host, "state"),
	       json_get_text(host, "address"));
	if (json_get_bool(clock, "calibrated")) {
		human_time(json_get_int(clock, "bound_ns"), bound);
		printf(" offset %+.6f s +-%s",
		       (double)json_get_int(clock, "offset_ns") / (double)NS_PER_S, bound);
	} else {
		printf(" clock not calibrated");
	}
	if (json_get_int(host, "quiet_ns")) {
		human_time(json_get_int(host, "quiet_ns"), bound);
		printf("  last message %s ago", bound);
	}
	if (steps) {
		human_time(json_get_int(steps, "period_ns"), bound);
		printf("  step %lld, one in %s", (long long)json_get_int(steps, "step"), bound);
	}
	print_labels(host);
	putchar('\n');
	print_tracers(host);
	print_jobs(host);
	print_rings(host);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct api_conf *conf = arg;
	json_t *doc = NULL;
	const json_t *host;
	size_t i;
	int rc = api_call(conf, "GET", "/api/v1/hosts", NULL, &doc, e);

	(void)argc;
	(void)argv;
	if (rc)
		return rc;
	if (conf->json) {
		api_print(doc);
	} else {
		json_array_foreach(json_object_get(doc, "hosts"), i, host) print_host(host);
	}
	json_decref(doc);
	return EXIT_ALL;
}

const struct cmd cmd_hosts = {
	.name = "hosts",
	.summary = "list hosts: their state, clocks, tracers and jobs",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run,
};
