/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"

struct conf {
	struct api_conf api;
	int64_t grace_ns, patience_ns;
};

static const struct conf_field fields[] = {
	CONF(struct conf, grace_ns, "0s",
	     "wait for the hosts, 1s to 2h; 0s = as for the capture that is retried"),
	FOLLOW_FIELD(struct conf),
	API_FIELDS(struct conf),
	{ 0 }
};

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *body = json_object();
	char *word = api_escape(argv[0]);
	char *path = xasprintf("/api/v1/sessions/%s/retry", word);
	int rc;

	(void)argc;
	if (conf->grace_ns)
		json_put_int(body, "grace_ns", conf->grace_ns);
	rc = api_call(&conf->api, "POST", path, body, NULL, e);
	json_decref(body);
	free(path);
	free(word);
	return rc ? rc : follow_capture(&conf->api, argv[0], conf->patience_ns, e);
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
