/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/result.h"

struct conf {
	struct api_conf api;
};

static const struct conf_field fields[] = { API_FIELDS(struct conf), { 0 } };

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *doc = NULL;
	int rc = api_call_about(&conf->api, "GET", "sessions", argv[0], "", &doc, e);

	(void)argc;
	/* A capture that is under way, or came to nothing, has no session but can still tell why. */
	if (rc == ERR_NOT_FOUND)
		rc = api_call_about(&conf->api, "GET", "captures", argv[0], "", &doc, e);
	if (!rc && !strcmp(json_get_text(doc, "state"), "committed") &&
	    !*json_get_text(doc, "path"))
		rc = err_set(e, ERR_NOT_FOUND, "no session %s any more: it was deleted", argv[0]);
	if (!rc)
		result_tell(&conf->api, doc);
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
