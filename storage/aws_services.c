/* SPDX-License-Identifier: Apache-2.0 */
/* Keys from services: a container's endpoint, the metadata service of an instance, STS for a web identity. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/aws_source.h"
#include "storage/cloud_answer.h"
#include "storage/cloud_http.h"
#include "storage/keys_service.h"
#include "storage/xml.h"

#define METADATA_S "21600" /* life of its token */

static int take_answer(struct cloud_keys *out, int status, struct buf *answer, struct err *e)
{
	if (status != 200)
		return err_set(e, ERR_DENIED, "the service answers %d", status);
	return aws_take_json(out, (char *)answer->data, answer->len, "Token", e);
}

/* ---- container ---- */

/* Without TLS the secret may only travel on this host, or to the addresses that AWS's agents have. */
static int check_container_url(const char *url, struct err *e)
{
	static const char *const agents[] = { "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };
	char host[SERVICE_HOST_BYTES];

	if (!strncmp(url, "https://", 8) || service_is_loopback(url))
		return 0;
	for (size_t i = 0; service_host(url, host) && i < ARRAY_SIZE(agents); i++)
		if (!strcmp(agents[i], host))
			return 0;
	return err_set(e, ERR_INVALID,
		       "AWS_CONTAINER_CREDENTIALS_FULL_URI: only https, loopback and AWS's agents "
		       "are asked");
}

static int container_header(char **out, struct err *e)
{
	const char *path = keys_setting("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = keys_setting("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	struct buf text = BUF_INIT;
	int rc = path ? service_load_token(path, &text, e) : 0;

	if (!rc && (path || token))
		*out = xasprintf("Authorization: %s", path ? buf_str(&text) : token);
	service_wipe(&text);
	return rc;
}

int aws_from_container(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *relative = keys_setting("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = keys_setting("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	struct buf answer = BUF_INIT;
	char *url, *header = NULL;
	int status, rc;

	if (!relative && !full)
		return ERR_NOT_FOUND;
	url = relative ? xasprintf("http://169.254.170.2%s", relative) : xstrdup(full);
	rc = check_container_url(url, e);
	if (!rc)
		rc = container_header(&header, e);
	if (!rc)
		rc = service_ask(
			env,
			&(struct service_request){ .method = "GET", .url = url, .header = header },
			&status, &answer, e);
	if (!rc)
		rc = take_answer(out, status, &answer, e);
	service_wipe(&answer);
	cloud_wipe_text(header);
	free(url);
	return rc;
}

/* ---- instance ---- */

static int ask_metadata(const struct keys_env *env, const char *base, const char *path,
			const char *token, int *status, struct buf *answer, struct err *e)
{
	char *url = xasprintf("%s/latest/%s", base, path);
	char *header = token ? xasprintf("X-aws-ec2-metadata-token: %s", token)
			     : xstrdup("X-aws-ec2-metadata-token-ttl-seconds: " METADATA_S);
	const struct service_request ask = { .method = token ? "GET" : "PUT",
					     .url = url,
					     .header = header,
					     .body = token ? NULL : &(struct buf)BUF_INIT,
					     .connect_ns = SERVICE_METADATA_NS };
	int rc;

	service_wipe(answer);
	rc = service_ask(env, &ask, status, answer, e);
	cloud_wipe_text(header);
	free(url);
	return rc;
}

/* The service answers with the role's name in a line. It becomes part of a URL path, so its characters are
 * checked. */
static int take_role(struct buf *answer, char **path, struct err *e)
{
	const char *name = buf_str(answer);
	size_t len = strcspn(name, "\r\n");

	if (!len || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "+=,.@_-") < len)
		return err_set(e, ERR_PEER, "the metadata service names no role");
	*path = xasprintf("meta-data/iam/security-credentials/%.*s", (int)len, name);
	return 0;
}

static int take_metadata(const struct keys_env *env, const char *base, const char *token,
			 struct cloud_keys *out, struct err *e)
{
	struct buf answer = BUF_INIT;
	char *path = NULL;
	int status, rc;

	rc = ask_metadata(env, base, "meta-data/iam/security-credentials/", token, &status, &answer,
			  e);
	if (!rc && status == 404)
		rc = ERR_NOT_FOUND; /* an instance without a role */
	else if (!rc && status != 200)
		rc = err_set(e, ERR_DENIED, "the metadata service answers %d", status);
	if (!rc)
		rc = take_role(&answer, &path, e);
	if (!rc)
		rc = ask_metadata(env, base, path, token, &status, &answer, e);
	if (!rc)
		rc = take_answer(out, status, &answer, e);
	service_wipe(&answer);
	free(path);
	return rc;
}

int aws_from_instance(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *base = keys_setting("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	const char *off = keys_setting("AWS_EC2_METADATA_DISABLED");
	struct buf token = BUF_INIT;
	int status, rc;

	if (off && !strcmp(off, "true"))
		return ERR_NOT_FOUND;
	if (!base)
		base = "http://169.254.169.254";
	if (ask_metadata(env, base, "api/token", NULL, &status, &token, NULL) || status != 200) {
		service_wipe(&token);
		return ERR_NOT_FOUND; /* no instance of EC2, or its service is hidden from containers */
	}
	rc = take_metadata(env, base, buf_str(&token), out, e);
	service_wipe(&token);
	return rc;
}

/* ---- web identity ---- */

static int on_sts_part(void *arg, const char *path, const char *text, struct err *e)
{
	static const char credentials[] = "/Credentials/";
	const char *name = strstr(path, credentials);
	struct cloud_keys *out = arg;

	if (!name || !text)
		return 0;
	name += strlen(credentials);
	if (!strcmp(name, "AccessKeyId"))
		return keys_take(out->id, sizeof(out->id), text, name, e);
	if (!strcmp(name, "SecretAccessKey"))
		return keys_take(out->secret, sizeof(out->secret), text, name, e);
	if (!strcmp(name, "SessionToken"))
		return keys_take(out->token, sizeof(out->token), text, name, e);
	if (!strcmp(name, "Expiration") && (out->end_s = iso_time_read(text)) < 0)
		return err_set(e, ERR_PEER, "Expiration is no time");
	return 0;
}

static int take_sts_answer(struct cloud_keys *out, int status, struct buf *answer, struct err *e)
{
	struct cloud_answer failed = { .body = *answer };

	if (status == 200) {
		int rc = xml_read(answer->data, answer->len, on_sts_part, out, e);

		return rc || (*out->id && *out->secret) ? rc
							: err_set(e, ERR_PEER, "STS gives no keys");
	}
	cloud_answer_read_error(&failed); /* errors of STS have the same two elements */
	return err_set(e, ERR_DENIED, "STS answers %d %s: %s", status, failed.code, failed.message);
}

int aws_from_web_identity(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *path = keys_setting("AWS_WEB_IDENTITY_TOKEN_FILE");
	const char *role = keys_setting("AWS_ROLE_ARN"),
		   *name = keys_setting("AWS_ROLE_SESSION_NAME");
	const char *endpoint = keys_setting("AWS_ENDPOINT_URL_STS");
	struct buf token = BUF_INIT, form = BUF_INIT, answer = BUF_INIT;
	char *url;
	int status, rc;

	if (!path || !role)
		return ERR_NOT_FOUND;
	url = endpoint ? xasprintf("%s/", endpoint)
		       : xasprintf("https://sts.%s.amazonaws.com%s/", env->region,
				   strncmp(env->region, "cn-", 3) ? "" : ".cn");
	rc = service_load_token(path, &token, e);
	if (!rc) {
		service_add_field(&form, "Action", "AssumeRoleWithWebIdentity");
		service_add_field(&form, "Version", "2011-06-15");
		service_add_field(&form, "RoleArn", role);
		service_add_field(&form, "RoleSessionName", name ? name : "tutti");
		service_add_field(&form, "WebIdentityToken", buf_str(&token));
		rc = service_ask(env,
				 &(struct service_request){ .method = "POST",
							    .url = url,
							    .body = &form,
							    .type = SERVICE_FORM,
							    .is_remote = true },
				 &status, &answer, e);
	}
	if (!rc)
		rc = take_sts_answer(out, status, &answer, e);
	service_wipe(&token);
	service_wipe(&form);
	service_wipe(&answer);
	free(url);
	return rc;
}
