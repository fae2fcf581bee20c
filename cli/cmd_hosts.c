/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/table.h"

struct conf {
	struct api_conf api;
	char *output;
};

static const struct conf_field fields[] = { LIST_OUTPUT_FIELD(struct conf),
					    API_FIELDS(struct conf),
					    { 0 } };

static const char *const heads[] = { "HOST", "STATE",	"ADDRESS", "OFFSET", "BOUND",
				     "STEP", "TRACERS", "JOBS",	   "LABELS", NULL };

/* ---- cells ---- */

static void add_clock(struct table *t, const json_t *clock)
{
	char bound[16];

	if (!json_get_bool(clock, "calibrated")) {
		table_cell(t, "not calibrated");
		table_cell(t, "%s", "");
		return;
	}
	human_time(json_get_int(clock, "bound_ns"), bound);
	table_cell(t, "%+.6f s", (double)json_get_int(clock, "offset_ns") / (double)NS_PER_S);
	table_cell(t, "%s", bound);
}

static void add_step(struct table *t, const json_t *steps)
{
	char period[16];

	if (!steps) {
		table_cell(t, "%s", "");
		return;
	}
	human_time(json_get_int(steps, "period_ns"), period);
	table_cell(t, "%" PRId64 " (one in %s)", json_get_int(steps, "step"), period);
}

/* "7 of 9": those that work. */
static void add_tracers(struct table *t, const json_t *tracers)
{
	const json_t *tracer;
	size_t i, n_ok = 0;

	json_array_foreach(tracers, i, tracer)
		n_ok += !strcmp(json_get_text(tracer, "state"), "ok");
	table_cell(t, "%zu of %zu", n_ok, json_array_size(tracers));
}

static void add_labels(struct table *t, const json_t *labels)
{
	struct buf text = BUF_INIT;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)labels, key, value)
		buf_addf(&text, "%s%s=%s", text.len ? "," : "", key, json_string_value(value));
	table_cell(t, "%.*s", (int)text.len, text.len ? (const char *)text.data : "");
	buf_release(&text);
}

/* ---- lines below a host ---- */

/* "rings reach back: cpu 58 s, metrics 60 s" */
static void note_rings(struct table *t, const json_t *host)
{
	int64_t now_ns = json_get_int(host, "seen_ns");
	struct buf text = BUF_INIT;
	const json_t *tracer;
	size_t i;

	json_array_foreach(json_object_get(host, "tracers"), i, tracer)
	{
		int64_t begin_ns = json_get_int(tracer, "begin_ns");

		if (begin_ns)
			buf_addf(&text, "%s%s %.0f s", text.len ? ", " : "",
				 json_get_text(tracer, "name"),
				 (double)(now_ns - begin_ns) / (double)NS_PER_S);
	}
	if (text.len)
		table_note(t, "rings reach back: %.*s", (int)text.len, (const char *)text.data);
	buf_release(&text);
}

static void note_tracers(struct table *t, const json_t *host)
{
	const json_t *tracer;
	size_t i;

	json_array_foreach(json_object_get(host, "tracers"), i, tracer)
	{
		if (strcmp(json_get_text(tracer, "state"), "ok"))
			table_note(t, "tracer %s is %s: %s", json_get_text(tracer, "name"),
				   json_get_text(tracer, "state"), json_get_text(tracer, "reason"));
	}
}

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static void note_jobs(struct table *t, const json_t *host)
{
	int64_t more = json_get_int(host, "more_jobs");
	const json_t *j;
	size_t i;

	json_array_foreach(json_object_get(host, "jobs"), i, j)
		table_note(t, "job %-8" PRId64 " %-28s %-10s %-21s %s", json_get_int(j, "pid"),
			   json_get_text(j, "command"), or_dash(json_get_text(j, "framework")),
			   or_dash(json_get_text(j, "address")), json_get_text(j, "state"));
	if (more)
		table_note(t, "and %" PRId64 " more jobs", more);
}

static void note_silence(struct table *t, const json_t *host)
{
	char quiet[16];

	if (!json_get_int(host, "quiet_ns"))
		return;
	human_time(json_get_int(host, "quiet_ns"), quiet);
	table_note(t, "last message %s ago", quiet);
}

/* ---- pods ---- */

/* {host: [pod]} of the pods that run, in a cluster; empty elsewhere. A new reference. */
static json_t *load_pods(const struct api_conf *conf)
{
	json_t *doc = NULL, *by_host = json_object(), *pod;
	struct err e;
	size_t i;

	if (api_call(conf, "GET", "/api/v1/pods", NULL, &doc, &e))
		return by_host;
	json_array_foreach(json_object_get(doc, "pods"), i, pod)
	{
		const char *host = json_get_text(pod, "host");

		if (!*host || strcmp(json_get_text(pod, "phase"), "Running") != 0)
			continue;
		if (!json_object_get(by_host, host))
			json_put(by_host, host, json_array());
		json_array_append(json_object_get(by_host, host), pod);
	}
	json_decref(doc);
	return by_host;
}

static void note_pods(struct table *t, const json_t *pods)
{
	const json_t *p;
	size_t i;

	json_array_foreach(pods, i, p)
	{
		const char *job = json_get_text(p, "job"), *rank = json_get_text(p, "rank");

		table_note(t, "pod %s/%s%s%s%s%s", json_get_text(p, "namespace"),
			   json_get_text(p, "pod"), *job ? ", job " : "", job,
			   *rank ? ", rank " : "", rank);
	}
}

/* ---- the list ---- */

/* `pods` are the host's, or NULL. */
/* `arg`: the pods, by host. */
static void add_host(void *arg, struct table *t, const json_t *host, enum list_form form)
{
	table_cell(t, "%s", json_get_text(host, "host"));
	table_cell(t, "%s", json_get_text(host, "state"));
	table_cell(t, "%s", json_get_text(host, "address"));
	add_clock(t, json_object_get(host, "clock"));
	add_step(t, json_object_get(host, "steps"));
	add_tracers(t, json_object_get(host, "tracers"));
	table_cell(t, "%lld",
		   (long long)json_array_size(json_object_get(host, "jobs")) +
			   (long long)json_get_int(host, "more_jobs"));
	add_labels(t, json_object_get(host, "labels"));
	note_silence(t, host);
	if (form != LIST_WIDE)
		return;
	note_tracers(t, host);
	note_jobs(t, host);
	note_pods(t, json_object_get(arg, json_get_text(host, "host")));
	note_rings(t, host);
}

static void print_hosts(const json_t *hosts, json_t *pods, enum list_form form)
{
	const struct list list = { .heads = heads, .name = "host", .add = add_host, .arg = pods };

	if (!json_array_size(hosts))
		fputs("no host is connected; on each: tutti-agent --aggregator HOST:7401\n",
		      stderr);
	list_print(&list, hosts, form);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	enum list_form form;
	json_t *doc = NULL, *pods = NULL;
	int rc = list_form_parse(conf->output, conf->api.json, &form, e);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = api_call(&conf->api, "GET", "/api/v1/hosts", NULL, &doc, e);
	if (rc)
		return rc;
	if (form == LIST_WIDE)
		pods = load_pods(&conf->api);
	if (form == LIST_JSON)
		api_print(doc);
	else
		print_hosts(json_object_get(doc, "hosts"), pods, form);
	json_decref(pods);
	json_decref(doc);
	return EXIT_ALL;
}

const struct cmd cmd_hosts = {
	.name = "hosts",
	.summary = "list hosts and their clocks; -o wide: tracers, jobs, pods and rings, too",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
