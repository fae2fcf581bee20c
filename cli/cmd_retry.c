/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"
#include "cli/result.h"

struct conf {
	struct api_conf api;
};

static const struct conf_field fields[] = { API_FIELDS(struct conf), { 0 } };

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	char *word = api_escape(argv[0]);
	char *path = xasprintf("/api/v1/sessions/%s/retry", word);
	json_t *capture = NULL, *result = NULL;
	int rc = api_call(&conf->api, "POST", path, NULL, &capture, e);

	(void)argc;
	if (!rc)
		rc = follow_capture(&conf->api, argv[0], &result, e);
	if (rc)
		goto out;
	if (conf->api.json)
		api_print(result);
	else
		result_print(result, stdout);
	rc = result_exit_code(result);
out:
	json_decref(result);
	json_decref(capture);
	free(path);
	free(word);
	return rc;
}

const struct cmd cmd_retry = {
	.name = "retry",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "complete a session: only its failed hosts are asked again",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
