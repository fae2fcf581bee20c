/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs token and revoke: which hosts may join the fleet, and which not any more. */
#include <stdio.h>
#include <string.h>

#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"

struct token_conf {
	struct api_conf api;
	int64_t for_ns;
	char *host;
	int uses;
};

static const struct conf_field token_fields[] = {
	CONF_RANGE(struct token_conf, for_ns, "1h", NS_PER_S, 366 * 86400 * NS_PER_S,
		   "how long hosts may join with it"),
	CONF_ONCE(struct token_conf, host, "",
		  "glob of the hosts' names that it is for; empty: all"),
	CONF_RANGE(struct token_conf, uses, "1", 0, 1000000,
		   "how many hosts may join with it; 0: any number"),
	API_FIELDS(struct token_conf),
	{ 0 }
};

static void print_token(const json_t *doc)
{
	char text[25];

	time_iso(json_get_int(doc, "until_ns"), text);
	printf("%s\n", json_get_text(doc, "token"));
	fprintf(stderr,
		"good until %s; on the host: tutti-agent --ca FILE --enrol-token FILE, with this "
		"token in a file of mode 0600\n",
		text);
}

static int run_token(const void *arg, int argc, char **argv, struct err *e)
{
	const struct token_conf *conf = arg;
	json_t *body, *doc = NULL;
	int rc;

	(void)argc;
	if (strcmp(argv[0], "create") != 0)
		return err_set(e, ERR_INVALID, "tutti token %.40s: use create", argv[0]);
	body = json_object();
	json_put_int(body, "life_ns", conf->for_ns);
	json_put_text(body, "host", conf->host ? conf->host : "");
	json_put_int(body, "uses", conf->uses);
	rc = api_call(&conf->api, "POST", "/api/v1/join-tokens", body, &doc, e);
	if (!rc && conf->api.json)
		api_print(doc);
	else if (!rc)
		print_token(doc);
	json_decref(doc);
	json_decref(body);
	return rc;
}

const struct cmd cmd_token = {
	.name = "token",
	.args = "create",
	.min_args = 1,
	.max_args = 1,
	.summary = "make a join token, with which a host gets its certificate",
	.fields = token_fields,
	.conf_size = sizeof(struct token_conf),
	.run = run_token,
};

struct revoke_conf {
	struct api_conf api;
	bool epoch, lift;
};

static const struct conf_field revoke_fields[] = {
	CONF_ONCE(struct revoke_conf, epoch, NULL,
		  "instead of one host: all certificates of now; every host joins anew"),
	CONF_ONCE(struct revoke_conf, lift, NULL,
		  "let a revoked host join again; its certificates of before stay refused"),
	API_FIELDS(struct revoke_conf),
	{ 0 }
};

static int run_revoke(const void *arg, int argc, char **argv, struct err *e)
{
	const struct revoke_conf *conf = arg;
	json_t *body, *doc = NULL;
	int rc;

	if (conf->epoch && conf->lift)
		return err_set(e, ERR_INVALID, "revoke: an epoch cannot be lifted");
	if (conf->epoch ? argc : argc != 1)
		return err_set(e, ERR_INVALID,
			       "revoke: give a HOST, with --lift or without, or --epoch");
	body = json_object();
	if (conf->epoch)
		json_put_bool(body, "epoch", true);
	else
		json_put_text(body, "host", argv[0]);
	if (conf->lift)
		json_put_bool(body, "lift", true);
	rc = api_call(&conf->api, "POST", "/api/v1/revocations", body, &doc, e);
	if (!rc && conf->api.json)
		api_print(doc);
	else if (!rc && conf->epoch)
		printf("revoked all certificates before epoch %lld\n",
		       (long long)json_get_int(doc, "epoch"));
	else if (!rc)
		printf(conf->lift ? "%s may join again\n" : "revoked %s\n", argv[0]);
	json_decref(doc);
	json_decref(body);
	return rc;
}

const struct cmd cmd_revoke = {
	.name = "revoke",
	.args = "[HOST]",
	.min_args = 0,
	.max_args = 1,
	.summary = "refuse a host's certificate from now on, or let it join again (--lift)",
	.fields = revoke_fields,
	.conf_size = sizeof(struct revoke_conf),
	.run = run_revoke,
};
