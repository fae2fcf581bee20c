/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"

struct conf {
	struct api_conf api;
	int64_t warn_above_ns;
};

static const struct conf_field fields[] = { API_FIELDS(struct conf),
					    CONF(struct conf, warn_above_ns, "1ms",
						 "warn about larger bounds, with exit code 3"),
					    { 0 } };

static void print_step(const json_t *s)
{
	char when[25], width[16], by[16];
	int64_t delta_ns = json_get_int(s, "delta_ns");

	time_iso(json_get_int(s, "from_ns"), when);
	human_time(json_get_int(s, "to_ns") - json_get_int(s, "from_ns"), width);
	human_time(llabs(delta_ns), by);
	printf("    %s at %s (within %s): %s%s\n", json_get_text(s, "kind"), when, width,
	       delta_ns < 0 ? "-" : "+", by);
}

/* A clock that may have broken has no offset until probes tell whether it did. */
static void print_suspected(const json_t *s)
{
	char when[25], width[16], by[16], left[16];
	int64_t from_ns = json_get_int(s, "from_ns"), to_ns = json_get_int(s, "to_ns");
	int64_t delta_ns = json_get_int(s, "delta_ns");

	time_iso(from_ns, when);
	human_time(to_ns - from_ns, width);
	human_time(llabs(delta_ns), by);
	human_time(json_get_int(s, "known_ns") - to_ns, left);
	printf("    %s suspected at %s (within %s): %s%s or more; known for sure %s later, if "
	       "probes are answered\n",
	       json_get_text(s, "kind"), when, width, delta_ns < 0 ? "-" : "+", by, left);
}

static void print_calibrated(const json_t *clock)
{
	char bound[16], rtt[16], jitter[16], rate[24] = "unknown";

	human_time(json_get_int(clock, "bound_ns"), bound);
	human_time(json_get_int(clock, "rtt_min_ns"), rtt);
	human_time(json_get_int(clock, "jitter_ns"), jitter);
	if (json_object_get(clock, "rate_ppb"))
		snprintf(rate, sizeof(rate), "%+.3f",
			 (double)json_get_int(clock, "rate_ppb") / 1000);
	printf(" %+17.9f  +-%-9s %-5s %9s  %-9s %-9s %-10s %6" PRId64 "\n",
	       (double)json_get_int(clock, "offset_ns") / (double)NS_PER_S, bound,
	       json_get_text(clock, "grade"), rate, jitter, rtt, json_get_text(clock, "method"),
	       json_get_int(clock, "probes"));
}

/* Without a connection only the quality of the wall clock is known. */
static void print_uncalibrated(const json_t *host, const json_t *clock)
{
	char error[16];

	human_time(json_get_int(clock, "wall_error_ns"), error);
	printf(" not calibrated");
	if (strcmp(json_get_text(host, "state"), "connected"))
		printf(": not connected\n");
	else if (json_object_get(clock, "suspected"))
		printf(": it may have broken\n");
	else if (json_get_bool(clock, "wall_synced"))
		printf("; its wall clock is steered, within %s of UTC\n", error);
	else
		printf("; no program is known to steer its wall clock\n");
}

static void print_host(const json_t *host)
{
	const json_t *clock = json_object_get(host, "clock");
	const json_t *step;
	size_t i;

	printf("%-20s", json_get_text(host, "host"));
	if (json_get_bool(clock, "calibrated"))
		print_calibrated(clock);
	else
		print_uncalibrated(host, clock);
	json_array_foreach(json_object_get(clock, "steps"), i, step) print_step(step);
	if (json_object_get(clock, "suspected"))
		print_suspected(json_object_get(clock, "suspected"));
}

/* Whether the host's clock is within the limit; prints a warning if not. */
static bool check_host(const json_t *host, int64_t warn_above_ns)
{
	const json_t *clock = json_object_get(host, "clock");
	char bound[16], limit[16];

	if (!json_get_bool(clock, "calibrated")) {
		fprintf(stderr, "warning: %s: its clock is not calibrated\n",
			json_get_text(host, "host"));
		return false;
	}
	if (json_get_int(clock, "bound_ns") <= warn_above_ns)
		return true;
	human_time(json_get_int(clock, "bound_ns"), bound);
	human_time(warn_above_ns, limit);
	fprintf(stderr, "warning: %s: its clock may be wrong by %s, more than %s\n",
		json_get_text(host, "host"), bound, limit);
	return false;
}

/* Keeps only the host that the user named. */
static int keep_host(json_t *doc, const char *name, struct err *e)
{
	json_t *one = json_array(), *host;
	size_t i;

	json_array_foreach(json_object_get(doc, "hosts"), i, host)
	{
		if (!strcmp(json_get_text(host, "host"), name))
			json_array_append(one, host);
	}
	i = json_array_size(one);
	json_put(doc, "hosts", one);
	return i ? 0 : err_set(e, ERR_NOT_FOUND, "no host %s", name);
}

static int report(const struct conf *conf, const json_t *doc)
{
	const json_t *host, *hosts = json_object_get(doc, "hosts");
	int code = EXIT_ALL;
	size_t i;

	if (conf->api.json) {
		api_print(doc);
	} else {
		printf("%-20s %17s  %-11s %-5s %9s  %-9s %-9s %-10s %6s\n", "host", "offset s",
		       "bound", "grade", "rate ppm", "jitter", "rtt", "method", "probes");
		json_array_foreach(hosts, i, host) print_host(host);
	}
	fflush(stdout);
	json_array_foreach(hosts, i, host)
	{
		if (!check_host(host, conf->warn_above_ns))
			code = EXIT_PARTIAL;
	}
	return code;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *doc = NULL;
	int rc = api_call(&conf->api, "GET", "/api/v1/hosts", NULL, &doc, e);

	if (!rc && argc)
		rc = keep_host(doc, argv[0], e);
	if (!rc)
		rc = report(conf, doc);
	json_decref(doc);
	return rc;
}

const struct cmd cmd_clock = {
	.name = "clock",
	.args = "[HOST]",
	.max_args = 1,
	.summary = "print the offsets of hosts' clocks and their bounds",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
