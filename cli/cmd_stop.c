/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/secret.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/local.h"
#include "proto/names.h"

struct conf {
	struct api_conf api;
	char *local_socket;
};

static const struct conf_field fields[] = {
	CONF(struct conf, local_socket, NULL,
	     "send it through the agent of this host, which takes part in the capture or began it"),
	API_FIELDS(struct conf),
	{ 0 }
};

static int stop_over_http(const struct conf *conf, const char *session, json_t **out, struct err *e)
{
	int rc = api_call_on(&conf->api, "POST", "captures", session, "/stop", out, e);

	if (rc == ERR_CLOSED)
		err_prefix(e, "use --server, or --local-socket on a host of the capture");
	return rc;
}

static int stop_over_socket(const struct conf *conf, const char *session, json_t **out,
			    struct err *e)
{
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStop stop = TUTTI__V1__LOCAL_STOP__INIT;
	Tutti__V1__LocalReply *reply;
	char *token = NULL;
	int rc = 0;

	if (conf->api.token_file && *conf->api.token_file)
		rc = secret_load(&token, conf->api.token_file, e);
	if (rc)
		return rc;
	stop.session = (char *)session;
	if (token)
		stop.token = token;
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_STOP;
	request.stop = &stop;
	rc = local_call(conf->local_socket, &request, &reply, e);
	secret_free(token);
	if (rc)
		return rc;
	*out = json_object();
	json_put_text(*out, "session", reply->session);
	tutti__v1__local_reply__free_unpacked(reply, NULL);
	return 0;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *doc = NULL;
	int rc;

	(void)argc;
	if (!name_is_session(argv[0]))
		return err_set(e, ERR_INVALID, "'%s' is not a session; see tutti sessions",
			       argv[0]);
	rc = conf->local_socket ? stop_over_socket(conf, argv[0], &doc, e)
				: stop_over_http(conf, argv[0], &doc, e);
	if (!rc && conf->api.json)
		api_print(doc);
	else if (!rc && json_get_bool(doc, "cancelled"))
		printf("%s: cancelled before its window began, there is no data\n", argv[0]);
	else if (!rc)
		printf("%s: the window ends now, the data is kept\n", argv[0]);
	json_decref(doc);
	return rc;
}

const struct cmd cmd_stop = {
	.name = "stop",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "end the window of a capture now and keep its data",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
