/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/cmd.h"

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct api_conf *conf = arg;
	json_t *capture = NULL;
	int rc = api_call_on(conf, "DELETE", "captures", argv[0], "", &capture, e);

	(void)argc;
	if (!rc && conf->json)
		api_print(capture);
	else if (!rc)
		printf("%s: cancelled, the data is dropped\n", argv[0]);
	json_decref(capture);
	return rc;
}

const struct cmd cmd_cancel = {
	.name = "cancel",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "end a capture, or remove it from the queue, and drop its data",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run,
};
