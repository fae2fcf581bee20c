/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/table.h"

struct conf {
	struct api_conf api;
	int64_t warn_above_ns;
	char *output;
};

static const struct conf_field fields[] = { API_FIELDS(struct conf),
					    CONF(struct conf, warn_above_ns, "1ms",
						 "warn about larger bounds, with exit code 3"),
					    LIST_OUTPUT_FIELD(struct conf),
					    { 0 } };

static const char *const heads[] = { "HOST",   "OFFSET", "BOUND",  "GRADE",  "RATE",
				     "JITTER", "RTT",	 "METHOD", "PROBES", NULL };

static void note_step(struct table *t, const json_t *s)
{
	char when[25], width[16], by[16];
	int64_t delta_ns = json_get_int(s, "delta_ns");

	time_iso(json_get_int(s, "from_ns"), when);
	human_time(json_get_int(s, "to_ns") - json_get_int(s, "from_ns"), width);
	human_time(llabs(delta_ns), by);
	table_note(t, "%s at %s (within %s): %s%s", json_get_text(s, "kind"), when, width,
		   delta_ns < 0 ? "-" : "+", by);
}

/* A clock that may have broken has no offset until probes tell whether it did. */
static void note_suspected(struct table *t, const json_t *s)
{
	char when[25], width[16], by[16], left[16];
	int64_t from_ns = json_get_int(s, "from_ns"), to_ns = json_get_int(s, "to_ns");
	int64_t delta_ns = json_get_int(s, "delta_ns");

	time_iso(from_ns, when);
	human_time(to_ns - from_ns, width);
	human_time(llabs(delta_ns), by);
	human_time(json_get_int(s, "known_ns") - to_ns, left);
	table_note(t,
		   "%s suspected at %s (within %s): %s%s or more; known for sure %s later, if "
		   "probes are answered",
		   json_get_text(s, "kind"), when, width, delta_ns < 0 ? "-" : "+", by, left);
}

static void note_wall_clock(struct table *t, const json_t *clock)
{
	char error[16];

	human_time(json_get_int(clock, "wall_error_ns"), error);
	if (json_get_bool(clock, "wall_synced"))
		table_note(t, "its wall clock is steered, within %s of UTC", error);
	else
		table_note(t, "no program is known to steer its wall clock");
}

static void add_calibrated(struct table *t, const json_t *clock)
{
	char bound[16], rtt[16], jitter[16];

	human_time(json_get_int(clock, "bound_ns"), bound);
	human_time(json_get_int(clock, "rtt_min_ns"), rtt);
	human_time(json_get_int(clock, "jitter_ns"), jitter);
	table_cell(t, "%+.9f s", (double)json_get_int(clock, "offset_ns") / (double)NS_PER_S);
	table_cell(t, "+-%s", bound);
	table_cell(t, "%s", json_get_text(clock, "grade"));
	if (json_object_get(clock, "rate_ppb"))
		table_cell(t, "%+.3f ppm", (double)json_get_int(clock, "rate_ppb") / 1000);
	else
		table_cell(t, "unknown");
	table_cell(t, "%s", jitter);
	table_cell(t, "%s", rtt);
	table_cell(t, "%s", json_get_text(clock, "method"));
	table_cell(t, "%" PRId64, json_get_int(clock, "probes"));
}

/* Without a connection only the quality of the wall clock is known. */
static void add_uncalibrated(struct table *t, const json_t *host, const json_t *clock)
{
	for (size_t i = 1; i < ARRAY_SIZE(heads) - 1; i++)
		table_cell(t, "%s", "");
	if (strcmp(json_get_text(host, "state"), "connected"))
		table_note(t, "not calibrated: not connected");
	else if (json_object_get(clock, "suspected"))
		table_note(t, "not calibrated: it may have broken");
	else
		table_note(t, "not calibrated");
}

static void add_host(void *arg, struct table *t, const json_t *host, enum list_form form)
{
	const json_t *clock = json_object_get(host, "clock");
	bool is_calibrated = json_get_bool(clock, "calibrated");
	const json_t *step;
	size_t i;

	(void)arg;
	table_cell(t, "%s", json_get_text(host, "host"));
	if (is_calibrated)
		add_calibrated(t, clock);
	else
		add_uncalibrated(t, host, clock);
	if (!is_calibrated || form == LIST_WIDE)
		note_wall_clock(t, clock);
	json_array_foreach(json_object_get(clock, "steps"), i, step) note_step(t, step);
	if (json_object_get(clock, "suspected"))
		note_suspected(t, json_object_get(clock, "suspected"));
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

static const struct list list = { .heads = heads, .name = "host", .add = add_host };

static int report(const struct conf *conf, enum list_form form, const json_t *doc)
{
	const json_t *host, *hosts = json_object_get(doc, "hosts");
	int code = EXIT_ALL;
	size_t i;

	if (form == LIST_JSON)
		api_print(doc);
	else
		list_print(&list, hosts, form);
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
	enum list_form form;
	json_t *doc = NULL;
	int rc = list_form_parse(conf->output, conf->api.json, &form, e);

	if (!rc)
		rc = api_call(&conf->api, "GET", "/api/v1/hosts", NULL, &doc, e);
	if (!rc && argc)
		rc = keep_host(doc, argv[0], e);
	if (!rc)
		rc = report(conf, form, doc);
	json_decref(doc);
	return rc;
}

const struct cmd cmd_clock = {
	.name = "clock",
	.args = "[HOST]",
	.max_args = 1,
	.summary = "print the offsets of hosts' clocks and their bounds; -o wide: their wall "
		   "clocks, too",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
