/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/result.h"

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct api_conf *conf = arg;
	json_t *doc = NULL;
	int rc = api_call_on(conf, "GET", "sessions", argv[0], "", &doc, e);

	(void)argc;
	/* A capture that is in progress or has failed has no session: prints the capture's state instead. */
	if (rc == ERR_NOT_FOUND)
		rc = api_call_on(conf, "GET", "captures", argv[0], "", &doc, e);
	if (!rc && !strcmp(json_get_text(doc, "state"), "committed") &&
	    !*json_get_text(doc, "path"))
		rc = err_set(e, ERR_NOT_FOUND, "session %s was deleted", argv[0]);
	if (!rc)
		result_print_text(conf, doc);
	json_decref(doc);
	return rc;
}

const struct cmd cmd_show = {
	.name = "show",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "print a session host by host, with the reasons for missing data",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run,
};
