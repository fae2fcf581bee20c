/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the pods that the aggregator knows of a Kubernetes cluster, and the jobs that they are a part of. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

static const char *const pod_heads[] = { "NAMESPACE", "POD",  "PHASE", "JOB",
					 "RANK",      "NODE", "HOST",  NULL };
static const char *const job_heads[] = { "NAMESPACE", "JOB",	   "KIND", "PODS",
					 "RUNNING",   "CONNECTED", NULL };

/* ---- rows ---- */

static void note_containers(struct table *t, const json_t *pod)
{
	const json_t *c;
	size_t i;

	table_note(t, "uid %s", json_get_text(pod, "uid"));
	json_array_foreach(json_object_get(pod, "containers"), i, c)
		table_note(t, "container %s %.12s, %" PRId64 " restarts", json_get_text(c, "name"),
			   json_get_text(c, "id"), json_get_int(c, "restarts"));
	if (json_get_int(pod, "profiler_port"))
		table_note(t, "profiler at port %" PRId64, json_get_int(pod, "profiler_port"));
	if (json_get_bool(pod, "opted_out"))
		table_note(t, "not profiled: its annotation tutti.dev/profile is \"false\"");
}

static void add_pod(void *arg, struct table *t, const json_t *pod, enum list_form form)
{
	(void)arg;
	table_cell(t, "%s", json_get_text(pod, "namespace"));
	table_cell(t, "%s", json_get_text(pod, "pod"));
	table_cell(t, "%s",
		   json_get_bool(pod, "ending") ? "Terminating" : json_get_text(pod, "phase"));
	table_cell(t, "%s", json_get_text(pod, "job"));
	table_cell(t, "%s", json_get_text(pod, "rank"));
	table_cell(t, "%s", json_get_text(pod, "node"));
	table_cell(t, "%s%s", json_get_text(pod, "host"),
		   *json_get_text(pod, "host") && !json_get_bool(pod, "connected") ? " (lost)"
										   : "");
	if (form == LIST_WIDE)
		note_containers(t, pod);
}

static void add_job(void *arg, struct table *t, const json_t *job, enum list_form form)
{
	(void)arg;
	(void)form;
	table_cell(t, "%s", json_get_text(job, "namespace"));
	table_cell(t, "%s", json_get_text(job, "job"));
	table_cell(t, "%s", json_get_text(job, "job_kind"));
	table_cell(t, "%" PRId64, json_get_int(job, "pods"));
	table_cell(t, "%" PRId64, json_get_int(job, "running"));
	table_cell(t, "%" PRId64, json_get_int(job, "connected"));
}

/* ---- both lists ---- */

static const struct list pods = { .heads = pod_heads, .name = "pod", .add = add_pod };
static const struct list jobs = { .heads = job_heads, .name = "job", .add = add_job };

/* Says on stderr what is missing in a list. */
static void warn_incomplete(const json_t *discovery)
{
	const char *state = json_get_text(discovery, "state");
	const char *error = json_get_text(discovery, "error");

	if (!strcmp(state, "off"))
		fputs("this aggregator lists no pods: start it with --kubernetes in-cluster, or a "
		      "URL\n",
		      stderr);
	else if (*error)
		fprintf(stderr, "warning: %s\n", error);
	else if (!strcmp(state, "listing"))
		fputs("warning: the pods are being listed\n", stderr);
}

/* `member` of the answer has the rows. */
static int show(const struct list *l, const char *member, const struct conf *conf, const char *path,
		struct err *e)
{
	enum list_form form;
	json_t *doc = NULL;
	int rc = list_form_parse(conf->output, conf->api.json, &form, e);

	if (!rc)
		rc = api_call(&conf->api, "GET", path, NULL, &doc, e);
	if (rc)
		return rc;
	if (form == LIST_JSON) {
		api_print(doc);
	} else {
		warn_incomplete(json_object_get(doc, "discovery"));
		list_print(l, json_object_get(doc, member), form);
	}
	json_decref(doc);
	return EXIT_ALL;
}

static int run_pods(const void *arg, int argc, char **argv, struct err *e)
{
	char *selector = argc ? api_escape(argv[0]) : NULL;
	char *path = xasprintf("/api/v1/pods%s%s", selector ? "?selector=" : "",
			       selector ? selector : "");
	int rc = show(&pods, "pods", arg, path, e);

	free(selector);
	free(path);
	return rc;
}

static int run_jobs(const void *arg, int argc, char **argv, struct err *e)
{
	(void)argc;
	(void)argv;
	return show(&jobs, "jobs", arg, "/api/v1/jobs", e);
}

const struct cmd cmd_pods = {
	.name = "pods",
	.args = "SELECTOR",
	.summary = "list the pods of the cluster and their hosts; SELECTOR as of capture --hosts",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.max_args = 1,
	.run = run_pods,
};

const struct cmd cmd_jobs = {
	.name = "jobs",
	.summary = "list the jobs that pods of the cluster are a part of",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run_jobs,
};
