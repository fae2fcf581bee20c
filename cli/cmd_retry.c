/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"

struct conf {
	struct api_conf api;
};

static const struct conf_field fields[] = { API_FIELDS(struct conf), { 0 } };

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	int rc = api_call_on(&conf->api, "POST", "sessions", argv[0], "/retry", NULL, e);

	(void)argc;
	return rc ? rc : follow_capture(&conf->api, argv[0], e);
}

const struct cmd cmd_retry = {
	.name = "retry",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "complete a session: capture its failed hosts again",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
