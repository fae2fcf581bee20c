/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/aws_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/aws_source.h"
#include "storage/cloud_answer.h"
#include "storage/keys_service.h"

/* In the order of AWS's own tools. */
static const struct keys_source sources[] = {
	{ "environment", aws_from_environment }, { "web identity", aws_from_web_identity },
	{ "profile", aws_from_profile },	 { "container", aws_from_container },
	{ "instance", aws_from_instance },
};

static const char *json_member(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text && *text ? text : NULL;
}

static int take_members(struct cloud_keys *out, const json_t *o, const char *token_name,
			struct err *e)
{
	const char *id = json_member(o, "AccessKeyId");
	const char *secret = json_member(o, "SecretAccessKey");
	const char *token = json_member(o, token_name), *end = json_member(o, "Expiration");
	int rc;

	if (!id || !secret)
		return err_set(e, ERR_PEER, "the answer lacks AccessKeyId or SecretAccessKey");
	rc = keys_take(out->id, sizeof(out->id), id, "AccessKeyId", e);
	if (!rc)
		rc = keys_take(out->secret, sizeof(out->secret), secret, "SecretAccessKey", e);
	if (!rc && token)
		rc = keys_take(out->token, sizeof(out->token), token, token_name, e);
	if (!rc && end && (out->end_s = iso_time_read(end)) < 0)
		rc = err_set(e, ERR_PEER, "Expiration is no time");
	return rc;
}

int aws_take_json(struct cloud_keys *out, char *text, size_t len, const char *token_name,
		  struct err *e)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	int rc = json_is_object(o) ? take_members(out, o, token_name, e)
				   : err_set(e, ERR_PEER, "the answer is no JSON object");

	service_wipe_json(o);
	if (len)
		explicit_bzero(text, len);
	return rc;
}

int aws_from_environment(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *id = keys_setting("AWS_ACCESS_KEY_ID");
	const char *secret = keys_setting("AWS_SECRET_ACCESS_KEY");
	const char *token = keys_setting("AWS_SESSION_TOKEN");
	int rc;

	(void)env;
	if (!id && !secret)
		return ERR_NOT_FOUND;
	if (!id || !secret)
		return err_set(e, ERR_INVALID,
			       "set both, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
	rc = keys_take(out->id, sizeof(out->id), id, "AWS_ACCESS_KEY_ID", e);
	if (!rc)
		rc = keys_take(out->secret, sizeof(out->secret), secret, "AWS_SECRET_ACCESS_KEY",
			       e);
	if (!rc && token)
		rc = keys_take(out->token, sizeof(out->token), token, "AWS_SESSION_TOKEN", e);
	return rc;
}

struct keys_chain *aws_chain_new(const char *profile, const char *region, const char *ca_file)
{
	struct keys_conf conf = { .sources = sources,
				  .n = ARRAY_SIZE(sources),
				  .profile = profile ? profile : keys_setting("AWS_PROFILE"),
				  .region = region,
				  .ca_file = ca_file };
	struct keys_chain *chain;
	char *looked;

	if (!conf.profile)
		conf.profile = "default";
	looked = xasprintf("neither the environment (AWS_ACCESS_KEY_ID), profile \"%.60s\", a "
			   "container's nor the instance's role has any",
			   conf.profile);
	conf.looked = looked;
	chain = keys_chain_new(&conf);
	free(looked);
	return chain;
}

struct sigv4_keys aws_keys_view(const struct cloud_keys *keys)
{
	return (struct sigv4_keys){ keys->id, keys->secret, keys->token };
}
