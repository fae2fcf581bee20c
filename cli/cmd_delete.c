/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/cmd.h"

struct conf {
	struct api_conf api;
};

static const struct conf_field fields[] = { API_FIELDS(struct conf), { 0 } };

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *doc = NULL;
	int rc = api_call_on(&conf->api, "DELETE", "sessions", argv[0], "", &doc, e);

	(void)argc;
	if (!rc && conf->api.json)
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
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
