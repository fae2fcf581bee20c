/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/result.h"

struct conf {
	struct api_conf api;
};

static const struct conf_field fields[] = { API_FIELDS(struct conf), { 0 } };

static int get(const struct conf *conf, const char *kind, const char *session, json_t **out,
	       struct err *e)
{
	char *word = api_escape(session);
	char *path = xasprintf("/api/v1/%s/%s", kind, word);
	int rc = api_call(&conf->api, "GET", path, NULL, out, e);

	free(path);
	free(word);
	return rc;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *doc = NULL;
	int rc = get(conf, "sessions", argv[0], &doc, e);

	(void)argc;
	/* A capture that is under way, or came to nothing, has no session but can still tell why. */
	if (rc == ERR_NOT_FOUND)
		rc = get(conf, "captures", argv[0], &doc, e);
	if (!rc && !strcmp(get_str(doc, "state"), "committed") && !*get_str(doc, "path"))
		rc = err_set(e, ERR_NOT_FOUND, "no session %s any more: it was deleted", argv[0]);
	if (rc)
		goto out;
	if (conf->api.json)
		api_print(doc);
	else
		result_print(doc, stdout);
out:
	json_decref(doc);
	return rc;
}

const struct cmd cmd_show = {
	.name = "show",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "tell a session host by host, with the reason for what is missing",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
