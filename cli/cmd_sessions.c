/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"

struct conf {
	struct api_conf api;
	int limit;
	char *after;
};

static const struct conf_field fields[] = {
	CONF(struct conf, limit, "100", "largest number of sessions, newest first"),
	CONF(struct conf, after, NULL, "list only sessions older than this one"),
	API_FIELDS(struct conf),
	{ 0 }
};

static void print_session(const json_t *s)
{
	char bytes[16];
	char length[16];

	human_bytes(json_get_int(s, "bytes"), bytes);
	human_time(json_get_int(s, "duration_ns"), length);
	printf("%-28s %-16s %8s %4d hosts", json_get_text(s, "session"), json_get_text(s, "run"),
	       length, (int)json_get_int(s, "hosts"));
	if (json_get_int(s, "partial") + json_get_int(s, "failed"))
		printf(" (%d partial, %d failed)", (int)json_get_int(s, "partial"),
		       (int)json_get_int(s, "failed"));
	printf(" %s%s\n", bytes, json_is_true(json_object_get(s, "pinned")) ? " pinned" : "");
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
	char *path = make_path(conf, argc ? argv[0] : "");
	json_t *doc = NULL;
	const json_t *s;
	size_t i;
	int rc = api_call(&conf->api, "GET", path, NULL, &doc, e);

	free(path);
	if (rc)
		return rc;
	if (conf->api.json) {
		api_print(doc);
	} else {
		json_array_foreach(json_object_get(doc, "sessions"), i, s) print_session(s);
	}
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
