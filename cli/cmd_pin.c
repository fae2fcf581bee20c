/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs pin and unpin. */
#include <stdio.h>

#include "cli/api.h"
#include "cli/cmd.h"

static int change(const struct api_conf *conf, const char *method, const char *session,
		  const char *what, struct err *e)
{
	json_t *doc = NULL;
	int rc = api_call_on(conf, method, "sessions", session, "/pin", &doc, e);

	if (!rc && conf->json)
		api_print(doc);
	else if (!rc)
		printf("%s %s\n", what, session);
	json_decref(doc);
	return rc;
}

static int run_pin(const void *conf, int argc, char **argv, struct err *e)
{
	(void)argc;
	return change(conf, "PUT", argv[0], "pinned", e);
}

static int run_unpin(const void *conf, int argc, char **argv, struct err *e)
{
	(void)argc;
	return change(conf, "DELETE", argv[0], "unpinned", e);
}

const struct cmd cmd_pin = {
	.name = "pin",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "keep a session until it is unpinned, whatever its age",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run_pin,
};

const struct cmd cmd_unpin = {
	.name = "unpin",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "let a pinned session be deleted again",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run_unpin,
};
