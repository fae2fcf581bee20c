/* SPDX-License-Identifier: Apache-2.0 */
/* Says what is wrong with this host's agent, its kernel, a job, the aggregator and the store, and how to mend it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/doctor.h"
#include "cli/table.h"
#include "json/json_text.h"

static const struct conf_field fields[] = {
	API_FIELDS(struct doctor_conf),
	CONF(struct doctor_conf, root, "/", "folder with the host's /proc, /sys and disks"),
	CONF(struct doctor_conf, local_socket, "ipc:///run/tutti/agent.ipc",
	     "the agent's local socket; empty: no agent is to be here"),
	CONF(struct doctor_conf, aggregator, NULL,
	     "host:port of the aggregator's gRPC; unset: what the agent dials"),
	CONF(struct doctor_conf, store, NULL, "URL of a store to try, as tutti store check does"),
	CONF_RANGE(struct doctor_conf, pid, "0", 0, INT32_MAX, "a process that is to be profiled"),
	CONF_ONCE(struct doctor_conf, output, "table",
		  "table: what is wrong; wide: all checks; name: the names of the checks that "
		  "found something; json (also -o)"),
	{ 0 }
};

static const char *const words[VERDICTS] = { "ok", "skipped", "warning", "failed" };

void doctor_add(struct doctor *d, const char *check, enum verdict verdict, const char *format, ...)
{
	char text[1024], clean[1024];
	json_t *o = json_object();
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	clean_sentence(clean, sizeof(clean), text, strlen(text));
	json_put_text(o, "check", check);
	json_put_text(o, "verdict", words[verdict]);
	json_put_text(o, "text", clean);
	json_put_text(o, "fix", "");
	json_array_append_new(d->findings, o);
	d->n[verdict]++;
}

void doctor_fix(struct doctor *d, const char *format, ...)
{
	json_t *last = json_array_get(d->findings, json_array_size(d->findings) - 1);
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_put_text(last, "fix", text);
}

bool doctor_line(const struct doctor *d, const char *path, char *out, size_t size)
{
	char *full = xasprintf("%s/%s", d->conf->root, path);
	bool found = file_first_line(full, out, size);

	free(full);
	return found;
}

bool doctor_has_file(const struct doctor *d, const char *path)
{
	char *full = xasprintf("%s/%s", d->conf->root, path);
	bool found = !access(full, F_OK);

	free(full);
	return found;
}

const char *doctor_tracer_state(const struct doctor *d, const char *name)
{
	const json_t *tracers = json_object_get(d->agent, "tracers"), *t;
	size_t i;

	json_array_foreach(tracers, i, t)
	{
		if (!strcmp(json_get_text(t, "name"), name))
			return json_get_text(t, "state");
	}
	return "";
}

/* ---- output ---- */

static bool is_finding(const json_t *o)
{
	const char *verdict = json_get_text(o, "verdict");

	return !strcmp(verdict, words[VERDICT_WARNING]) || !strcmp(verdict, words[VERDICT_FAILED]);
}

static void print_text(const struct doctor *d, enum list_form form)
{
	const json_t *o;
	size_t i;

	json_array_foreach(d->findings, i, o)
	{
		if (!is_finding(o) && form != LIST_WIDE)
			continue;
		if (form == LIST_NAME) {
			puts(json_get_text(o, "check"));
			continue;
		}
		printf("%-7s  %-28s %s\n", json_get_text(o, "verdict"), json_get_text(o, "check"),
		       json_get_text(o, "text"));
		if (*json_get_text(o, "fix"))
			printf("         %-28s to mend: %s\n", "", json_get_text(o, "fix"));
	}
	if (form != LIST_NAME)
		printf("%u checks: %u ok, %u warnings, %u failed, %u skipped\n",
		       (unsigned int)json_array_size(d->findings), d->n[VERDICT_OK],
		       d->n[VERDICT_WARNING], d->n[VERDICT_FAILED], d->n[VERDICT_SKIPPED]);
}

static void print_json(const struct doctor *d)
{
	json_t *o = json_object();

	json_put_int(o, "ok", d->n[VERDICT_OK]);
	json_put_int(o, "skipped", d->n[VERDICT_SKIPPED]);
	json_put_int(o, "warnings", d->n[VERDICT_WARNING]);
	json_put_int(o, "failed", d->n[VERDICT_FAILED]);
	json_put(o, "findings", json_incref(d->findings));
	api_print(o);
	json_decref(o);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct doctor_conf *conf = arg;
	struct doctor d = { .conf = conf };
	enum list_form form;
	int rc = list_form_parse(conf->output, conf->api.json, &form, e);

	(void)argc;
	(void)argv;
	if (rc)
		return rc;
	d.findings = json_array();
	doctor_check_agent(&d);
	doctor_check_kernel(&d);
	doctor_check_host(&d);
	doctor_check_job(&d);
	doctor_check_aggregator(&d);
	doctor_check_store(&d);
	if (form == LIST_JSON)
		print_json(&d);
	else
		print_text(&d, form);
	rc = d.n[VERDICT_FAILED] ? EXIT_OTHER : d.n[VERDICT_WARNING] ? EXIT_PARTIAL : EXIT_ALL;
	json_decref(d.findings);
	json_decref(d.agent);
	return rc;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.summary = "say what is wrong on this host and with the aggregator, and how to mend it",
	.fields = fields,
	.conf_size = sizeof(struct doctor_conf),
	.run = run,
};
