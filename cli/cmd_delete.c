/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/cmd.h"

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct api_conf *conf = arg;
	json_t *doc = NULL;
	int rc = api_call_on(conf, "DELETE", "sessions", argv[0], "", &doc, e);

	(void)argc;
	if (!rc && conf->json)
		api_print(doc);
	else if (!rc)
		printf("deleted %s\n", argv[0]);
	json_decref(doc);
	return rc;
}

const struct cmd cmd_delete = {
	.name = "delete",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "remove a session and its files",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run,
};
