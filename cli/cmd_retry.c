/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct api_conf *conf = arg;
	int rc = api_call_on(conf, "POST", "sessions", argv[0], "/retry", NULL, e);

	(void)argc;
	return rc ? rc : follow_capture(conf, argv[0], e);
}

const struct cmd cmd_retry = {
	.name = "retry",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "complete a session: capture its failed hosts again",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run,
};
