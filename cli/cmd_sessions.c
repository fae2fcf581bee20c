/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/table.h"

struct conf {
	struct api_conf api;
	int limit;
	char *after;
	char *output;
};

static const struct conf_field fields[] = {
	CONF(struct conf, limit, "100", "largest number of sessions, newest first"),
	CONF(struct conf, after, NULL, "list only sessions older than this one"),
	LIST_OUTPUT_FIELD(struct conf),
	API_FIELDS(struct conf),
	{ 0 }
};

static const char *const heads[] = { "SESSION", "RUN",	 "DURATION", "HOSTS", "PARTIAL",
				     "FAILED",	"BYTES", "KEPT",     NULL };

static void add_session(void *arg, struct table *t, const json_t *s, enum list_form form)
{
	char bytes[16], length[16];

	(void)arg;
	(void)form;
	human_bytes(json_get_int(s, "bytes"), bytes);
	human_time(json_get_int(s, "duration_ns"), length);
	table_cell(t, "%s", json_get_text(s, "session"));
	table_cell(t, "%s", json_get_text(s, "run"));
	table_cell(t, "%s", length);
	table_cell(t, "%d", (int)json_get_int(s, "hosts"));
	table_cell(t, "%d", (int)json_get_int(s, "partial"));
	table_cell(t, "%d", (int)json_get_int(s, "failed"));
	table_cell(t, "%s", bytes);
	table_cell(t, "%s", json_is_true(json_object_get(s, "pinned")) ? "pinned" : "");
}

/* Beside the table, so that it does not disturb scripts. */
static void print_quota(const json_t *q)
{
	int64_t max_bytes = json_get_int(q, "max_bytes"),
		max_sessions = json_get_int(q, "max_sessions");
	const json_t *run = json_object_get(q, "run");
	char used[16], most[16];

	human_bytes(json_get_int(q, "bytes"), used);
	human_bytes(max_bytes, most);
	fprintf(stderr, "quota%s%s%s:", run ? " of run '" : "", run ? json_string_value(run) : "",
		run ? "'" : "");
	if (max_sessions)
		fprintf(stderr, " %lld of %lld sessions", (long long)json_get_int(q, "sessions"),
			(long long)max_sessions);
	if (max_bytes)
		fprintf(stderr, "%s %s of %s", max_sessions ? "," : "", used, most);
	fputc('\n', stderr);
}

static void print_quotas(const json_t *quotas)
{
	const json_t *quota;
	size_t i;

	json_array_foreach(quotas, i, quota) print_quota(quota);
}

static void print_sessions(const json_t *sessions, enum list_form form)
{
	static const struct list list = { .heads = heads, .name = "session", .add = add_session };

	if (!json_array_size(sessions))
		fputs("no session is stored; tutti capture makes one\n", stderr);
	list_print(&list, sessions, form);
}

static char *make_path(const struct conf *conf, const char *run)
{
	char *run_word = api_escape(run);
	char *after_word = api_escape(conf->after ? conf->after : "");
	char *path = xasprintf("/api/v1/sessions?limit=%d%s%s%s%s", conf->limit,
			       *run ? "&run=" : "", run_word, *after_word ? "&after=" : "",
			       after_word);

	free(run_word);
	free(after_word);
	return path;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	enum list_form form;
	json_t *doc = NULL;
	char *path;
	int rc = list_form_parse(conf->output, conf->api.json, &form, e);

	if (rc)
		return rc;
	path = make_path(conf, argc ? argv[0] : "");
	rc = api_call(&conf->api, "GET", path, NULL, &doc, e);
	free(path);
	if (rc)
		return rc;
	if (form == LIST_JSON)
		api_print(doc);
	else
		print_sessions(json_object_get(doc, "sessions"), form);
	if (form != LIST_JSON && form != LIST_NAME)
		print_quotas(json_object_get(doc, "quotas"));
	json_decref(doc);
	return EXIT_ALL;
}

const struct cmd cmd_sessions = {
	.name = "sessions",
	.args = "[RUN]",
	.max_args = 1,
	.summary = "list stored sessions, newest first",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
