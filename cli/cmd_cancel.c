/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/cmd.h"

struct conf {
	struct api_conf api;
	bool discard;
};

static const struct conf_field fields[] = { CONF_ONCE(struct conf, discard, NULL,
						      "forget what was recorded so far as well"),
					    API_FIELDS(struct conf),
					    { 0 } };

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *doc = NULL;
	int rc = api_call_about(&conf->api, conf->discard ? "DELETE" : "POST", "captures", argv[0],
				conf->discard ? "" : "/stop", &doc, e);

	(void)argc;
	if (!rc && conf->api.json)
		api_print(doc);
	else if (!rc)
		printf("%s: %s\n", argv[0],
		       json_is_true(json_object_get(doc, "cancelled"))
			       ? "cancelled, nothing is kept"
			       : "the window ends now, what was recorded is kept");
	json_decref(doc);
	return rc;
}

const struct cmd cmd_cancel = {
	.name = "cancel",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "end a capture now and keep the data, or forget it; take it out of the queue",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
