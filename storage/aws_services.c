/* SPDX-License-Identifier: Apache-2.0 */
/* Keys from services: a container's endpoint, the metadata service of an instance, STS for a web identity. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/percent.h"
#include "net/address.h"
#include "storage/aws_source.h"
#include "storage/s3_answer.h"
#include "storage/xml.h"

#define ANSWER_MAX  ((size_t)64 << 10)
#define TOKEN_MAX   ((size_t)32 << 10)
#define METADATA_NS NS_PER_S /* there is no metadata service on most machines: find out soon */
#define METADATA_S  "21600" /* life of its token */

struct service_request {
	const char *method, *url;
	const char *header; /* one, or NULL */
	const struct buf *body; /* NULL = none */
	bool is_form;
	int64_t connect_ns; /* 0 = the usual patience */
};

static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_release(b);
}

/* Uses a proxy only for STS: the other services are on the host or its own network. */
static int ask_service(const struct aws_source_env *env, const struct service_request *ask,
		       int *status, struct buf *answer, struct err *e)
{
	const char *headers[3] = { ask->header };
	struct http_request req = { .method = ask->method,
				    .url = ask->url,
				    .headers = headers,
				    .fd = -1,
				    .answer_max = ANSWER_MAX,
				    .is_direct = !ask->is_form,
				    .connect_ns = ask->connect_ns,
				    .deadline_mono_ns = now_mono_ns() +
							AWS_KEYS_PATIENCE_S * NS_PER_S };

	if (ask->is_form)
		headers[0] = "Content-Type: application/x-www-form-urlencoded";
	if (ask->body) {
		req.has_body = true;
		req.data = ask->body->data;
		req.len = ask->body->len;
	}
	return http_pool_request(env->http, &req, status, answer, e);
}

/* The file's text without blanks at its end; the caller wipes it. It is read each time: such tokens are replaced. */
static int load_token(const char *path, struct buf *out, struct err *e)
{
	int rc = file_load(path, TOKEN_MAX, out, e);

	while (!rc && out->len && strchr(" \t\r\n", out->data[out->len - 1]))
		buf_cut(out, out->len - 1);
	for (size_t i = 0; !rc && i < out->len; i++)
		if (out->data[i] < ' ' || out->data[i] > '~')
			rc = err_set(e, ERR_INVALID, "%s: a token is one line of ASCII", path);
	return rc;
}

static int take_answer(struct aws_keys *out, int status, struct buf *answer, struct err *e)
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
	const char *host = url + strlen("http://");
	size_t len = strcspn(host, "/?");
	char name[64];

	if (!strncmp(url, "https://", 8))
		return 0;
	if (!strncmp(url, "http://", 7) && !memchr(host, '@', len)) {
		size_t port = len;

		while (port && host[port - 1] >= '0' && host[port - 1] <= '9')
			port--;
		if (port && host[port - 1] == ':')
			len = port - 1;
		for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
			if (strlen(agents[i]) == len && !memcmp(agents[i], host, len))
				return 0;
		if (len > 2 && *host == '[' && host[len - 1] == ']') {
			host++;
			len -= 2;
		}
		snprintf(name, sizeof(name), "%.*s", (int)(len < 63 ? len : 63), host);
		if (address_is_loopback(name))
			return 0;
	}
	return err_set(e, ERR_INVALID,
		       "AWS_CONTAINER_CREDENTIALS_FULL_URI: only https, loopback and AWS's agents "
		       "are asked");
}

static int container_header(char **out, struct err *e)
{
	const char *path = aws_setting("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = aws_setting("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	struct buf text = BUF_INIT;
	int rc = path ? load_token(path, &text, e) : 0;

	if (!rc && (path || token))
		*out = xasprintf("Authorization: %s", path ? buf_str(&text) : token);
	wipe(&text);
	return rc;
}

static void wipe_text(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

int aws_from_container(const struct aws_source_env *env, struct aws_keys *out, struct err *e)
{
	const char *relative = aws_setting("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = aws_setting("AWS_CONTAINER_CREDENTIALS_FULL_URI");
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
		rc = ask_service(
			env,
			&(struct service_request){ .method = "GET", .url = url, .header = header },
			&status, &answer, e);
	if (!rc)
		rc = take_answer(out, status, &answer, e);
	wipe(&answer);
	wipe_text(header);
	free(url);
	return rc;
}

/* ---- instance ---- */

static int ask_metadata(const struct aws_source_env *env, const char *base, const char *path,
			const char *token, int *status, struct buf *answer, struct err *e)
{
	char *url = xasprintf("%s/latest/%s", base, path);
	char *header = token ? xasprintf("X-aws-ec2-metadata-token: %s", token)
			     : xstrdup("X-aws-ec2-metadata-token-ttl-seconds: " METADATA_S);
	const struct service_request ask = { .method = token ? "GET" : "PUT",
					     .url = url,
					     .header = header,
					     .body = token ? NULL : &(struct buf)BUF_INIT,
					     .connect_ns = METADATA_NS };
	int rc;

	wipe(answer);
	rc = ask_service(env, &ask, status, answer, e);
	wipe_text(header);
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

static int take_metadata(const struct aws_source_env *env, const char *base, const char *token,
			 struct aws_keys *out, struct err *e)
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
	wipe(&answer);
	free(path);
	return rc;
}

int aws_from_instance(const struct aws_source_env *env, struct aws_keys *out, struct err *e)
{
	const char *base = aws_setting("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	const char *off = aws_setting("AWS_EC2_METADATA_DISABLED");
	struct buf token = BUF_INIT;
	int status, rc;

	if (off && !strcmp(off, "true"))
		return ERR_NOT_FOUND;
	if (!base)
		base = "http://169.254.169.254";
	if (ask_metadata(env, base, "api/token", NULL, &status, &token, NULL) || status != 200) {
		wipe(&token);
		return ERR_NOT_FOUND; /* no instance of EC2, or its service is hidden from containers */
	}
	rc = take_metadata(env, base, buf_str(&token), out, e);
	wipe(&token);
	return rc;
}

/* ---- web identity ---- */

static int on_sts_part(void *arg, const char *path, const char *text, struct err *e)
{
	static const char credentials[] = "/Credentials/";
	const char *name = strstr(path, credentials);
	struct aws_keys *out = arg;

	if (!name || !text)
		return 0;
	name += strlen(credentials);
	if (!strcmp(name, "AccessKeyId"))
		return aws_take(out->id, sizeof(out->id), text, name, e);
	if (!strcmp(name, "SecretAccessKey"))
		return aws_take(out->secret, sizeof(out->secret), text, name, e);
	if (!strcmp(name, "SessionToken"))
		return aws_take(out->token, sizeof(out->token), text, name, e);
	if (!strcmp(name, "Expiration") && (out->end_s = iso_time_read(text)) < 0)
		return err_set(e, ERR_PEER, "Expiration is no time");
	return 0;
}

static int take_sts_answer(struct aws_keys *out, int status, struct buf *answer, struct err *e)
{
	struct s3_answer failed = { .body = *answer };

	if (status == 200) {
		int rc = xml_read(answer->data, answer->len, on_sts_part, out, e);

		return rc || (*out->id && *out->secret) ? rc
							: err_set(e, ERR_PEER, "STS gives no keys");
	}
	s3_answer_read_error(&failed); /* errors of STS have the same two elements */
	return err_set(e, ERR_DENIED, "STS answers %d %s: %s", status, failed.code, failed.message);
}

static void add_field(struct buf *form, const char *name, const char *value)
{
	buf_addf(form, "%s%s=", form->len ? "&" : "", name);
	percent_encode(form, value, "");
}

int aws_from_web_identity(const struct aws_source_env *env, struct aws_keys *out, struct err *e)
{
	const char *path = aws_setting("AWS_WEB_IDENTITY_TOKEN_FILE");
	const char *role = aws_setting("AWS_ROLE_ARN"),
		   *name = aws_setting("AWS_ROLE_SESSION_NAME");
	const char *endpoint = aws_setting("AWS_ENDPOINT_URL_STS");
	struct buf token = BUF_INIT, form = BUF_INIT, answer = BUF_INIT;
	char *url;
	int status, rc;

	if (!path || !role)
		return ERR_NOT_FOUND;
	url = endpoint ? xasprintf("%s/", endpoint)
		       : xasprintf("https://sts.%s.amazonaws.com%s/", env->region,
				   strncmp(env->region, "cn-", 3) ? "" : ".cn");
	rc = load_token(path, &token, e);
	if (!rc) {
		add_field(&form, "Action", "AssumeRoleWithWebIdentity");
		add_field(&form, "Version", "2011-06-15");
		add_field(&form, "RoleArn", role);
		add_field(&form, "RoleSessionName", name ? name : "tutti");
		add_field(&form, "WebIdentityToken", buf_str(&token));
		rc = ask_service(
			env,
			&(struct service_request){
				.method = "POST", .url = url, .body = &form, .is_form = true },
			&status, &answer, e);
	}
	if (!rc)
		rc = take_sts_answer(out, status, &answer, e);
	wipe(&token);
	wipe(&form);
	wipe(&answer);
	free(url);
	return rc;
}
