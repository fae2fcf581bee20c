/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/gs_keys.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "net/jwt_sign.h"
#include "storage/cloud_answer.h"
#include "storage/cloud_http.h"
#include "storage/keys_service.h"

#define SCOPE	   "https://www.googleapis.com/auth/devstorage.read_write"
#define TOKEN_URL  "https://oauth2.googleapis.com/token"
#define TOKEN_TYPE "urn:ietf:params:oauth:token-type:access_token"
#define JWT_LIFE_S 3600

/* ---- what files have in common ---- */

static const char *member(const json_t *o, const char *name, struct err *e)
{
	const char *text = json_get_text(o, name);

	if (*text)
		return text;
	err_set(e, ERR_INVALID, "it has no %s", name);
	return NULL;
}

static int ask_token(const struct keys_env *env, const char *url, const struct buf *form,
		     struct cloud_keys *out, struct err *e)
{
	const struct service_request ask = { .method = "POST",
					     .url = url,
					     .body = form,
					     .type = SERVICE_FORM,
					     .is_remote = !service_is_loopback(url) };
	struct buf answer = BUF_INIT;
	int status, rc = service_check_url(url, "the token service", e);

	if (!rc)
		rc = service_ask(env, &ask, &status, &answer, e);
	if (!rc)
		rc = service_take_bearer(out, "the token service", status, &answer, e);
	service_wipe(&answer);
	return rc;
}

/* ---- a service account ---- */

static int make_assertion(const json_t *o, const char *audience, int64_t unix_s, struct buf *out,
			  struct err *e)
{
	const char *who = member(o, "client_email", e), *pem = member(o, "private_key", e);
	json_t *header, *claims;
	struct buf head = BUF_INIT, body = BUF_INIT;
	int rc;

	if (!who || !pem)
		return ERR_INVALID;
	header = json_object();
	json_put_text(header, "alg", "RS256");
	json_put_text(header, "typ", "JWT");
	if (*json_get_text(o, "private_key_id"))
		json_put_text(header, "kid", json_get_text(o, "private_key_id"));
	claims = json_object();
	json_put_text(claims, "iss", who);
	json_put_text(claims, "scope", SCOPE);
	json_put_text(claims, "aud", audience);
	json_put_int(claims, "iat", unix_s);
	json_put_int(claims, "exp", unix_s + JWT_LIFE_S);
	json_write(&head, header, 0);
	json_write(&body, claims, 0);
	rc = jwt_sign_rs256(buf_str(&head), buf_str(&body), pem, out, e);
	buf_release(&head);
	buf_release(&body);
	return rc;
}

static const char *token_url_of(const json_t *o)
{
	const char *url = json_get_text(o, "token_uri");

	return *url ? url : TOKEN_URL;
}

static int add_service_account(const json_t *o, int64_t unix_s, struct buf *form, struct err *e)
{
	struct buf assertion = BUF_INIT;
	int rc = make_assertion(o, token_url_of(o), unix_s, &assertion, e);

	if (!rc) {
		service_add_field(form, "grant_type",
				  "urn:ietf:params:oauth:grant-type:jwt-bearer");
		service_add_field(form, "assertion", buf_str(&assertion));
	}
	service_wipe(&assertion);
	return rc;
}

int gs_service_account_form(const void *text, size_t len, int64_t unix_s, struct buf *form,
			    struct err *e)
{
	json_t *o = NULL;
	int rc = json_parse(&o, text, len, e);

	if (!rc)
		rc = add_service_account(o, unix_s, form, e);
	service_wipe_json(o);
	return rc;
}

static int from_service_account(const struct keys_env *env, const json_t *o, struct cloud_keys *out,
				struct err *e)
{
	struct buf form = BUF_INIT;
	int rc = add_service_account(o, now_real_ns() / NS_PER_S, &form, e);

	if (!rc)
		rc = ask_token(env, token_url_of(o), &form, out, e);
	service_wipe(&form);
	return rc;
}

/* ---- a user ---- */

static int from_user(const struct keys_env *env, const json_t *o, struct cloud_keys *out,
		     struct err *e)
{
	static const char *const names[] = { "client_id", "client_secret", "refresh_token" };
	struct buf form = BUF_INIT;
	int rc = 0;

	service_add_field(&form, "grant_type", "refresh_token");
	for (size_t i = 0; !rc && i < ARRAY_SIZE(names); i++) {
		const char *value = member(o, names[i], e);

		if (value)
			service_add_field(&form, names[i], value);
		else
			rc = ERR_INVALID;
	}
	if (!rc)
		rc = ask_token(env, token_url_of(o), &form, out, e);
	service_wipe(&form);
	return rc;
}

/* ---- workload identity federation ---- */

/* The token of the other identity provider: a file, as text or as a member of a JSON object. */
static int load_subject(const json_t *source, struct buf *out, struct err *e)
{
	const json_t *format = json_object_get(source, "format");
	const char *path = json_get_text(source, "file");
	struct buf text = BUF_INIT;
	json_t *o = NULL;
	int rc;

	if (!*path)
		return err_set(e, ERR_UNSUPPORTED,
			       "its credential_source is no file: only tokens in files are taken");
	if (strcmp(json_get_text(format, "type"), "json"))
		return service_load_token(path, out, e);
	rc = service_load_file(path, &text, e);
	if (!rc && json_parse(&o, text.data, text.len, NULL))
		rc = err_set(e, ERR_INVALID, "%.100s: no JSON", path);
	if (!rc)
		buf_add_str(out,
			    json_get_text(o, json_get_text(format, "subject_token_field_name")));
	if (!rc && !out->len)
		rc = err_set(e, ERR_INVALID, "%.100s has no such member", path);
	service_wipe_json(o);
	service_wipe(&text);
	return rc;
}

static int take_impersonated(struct cloud_keys *out, int status, struct buf *answer, struct err *e)
{
	json_t *o = NULL;
	int rc;

	if (status != 200)
		return service_refusal("the service account", status, answer, e);
	if (json_parse(&o, answer->data, answer->len, NULL))
		return err_set(e, ERR_PEER, "the service account's token is no JSON");
	out->end_s = iso_time_read(json_get_text(o, "expireTime"));
	if (!*json_get_text(o, "accessToken") || out->end_s < 0)
		rc = err_set(e, ERR_PEER, "the answer lacks accessToken or expireTime");
	else
		rc = keys_take(out->token, sizeof(out->token), json_get_text(o, "accessToken"),
			       "accessToken", e);
	service_wipe_json(o);
	return rc;
}

/* Changes the federated token in `out` into one of a service account. */
static int impersonate(const struct keys_env *env, const char *url, struct cloud_keys *out,
		       struct err *e)
{
	struct buf body = BUF_INIT, answer = BUF_INIT;
	char *header = xasprintf("Authorization: Bearer %s", out->token);
	int status, rc = service_check_url(url, "service_account_impersonation_url", e);

	buf_addf(&body, "{\"scope\":[\"%s\"]}", SCOPE);
	if (!rc)
		rc = service_ask(
			env,
			&(struct service_request){ .method = "POST",
						   .url = url,
						   .header = header,
						   .body = &body,
						   .type = SERVICE_JSON,
						   .is_remote = !service_is_loopback(url) },
			&status, &answer, e);
	if (!rc)
		rc = take_impersonated(out, status, &answer, e);
	cloud_wipe_text(header);
	buf_release(&body);
	service_wipe(&answer);
	return rc;
}

static int from_federation(const struct keys_env *env, const json_t *o, struct cloud_keys *out,
			   struct err *e)
{
	const char *audience = member(o, "audience", e), *url = member(o, "token_url", e);
	const char *type = member(o, "subject_token_type", e);
	const char *account = json_get_text(o, "service_account_impersonation_url");
	struct buf subject = BUF_INIT, form = BUF_INIT;
	int rc = audience && url && type ? 0 : ERR_INVALID;

	if (!rc)
		rc = load_subject(json_object_get(o, "credential_source"), &subject, e);
	if (!rc) {
		service_add_field(&form, "grant_type",
				  "urn:ietf:params:oauth:grant-type:token-exchange");
		service_add_field(&form, "audience", audience);
		service_add_field(&form, "scope",
				  *account ? "https://www.googleapis.com/auth/cloud-platform"
					   : SCOPE);
		service_add_field(&form, "requested_token_type", TOKEN_TYPE);
		service_add_field(&form, "subject_token_type", type);
		service_add_field(&form, "subject_token", buf_str(&subject));
		rc = ask_token(env, url, &form, out, e);
	}
	if (!rc && *account)
		rc = impersonate(env, account, out, e);
	service_wipe(&subject);
	service_wipe(&form);
	return rc;
}

/* ---- the sources ---- */

static int take_file(const struct keys_env *env, const json_t *o, struct cloud_keys *out,
		     struct err *e)
{
	const char *type = json_get_text(o, "type");

	if (!strcmp(type, "service_account"))
		return from_service_account(env, o, out, e);
	if (!strcmp(type, "authorized_user"))
		return from_user(env, o, out, e);
	if (!strcmp(type, "external_account"))
		return from_federation(env, o, out, e);
	return err_set(e, ERR_UNSUPPORTED,
		       "its type is none of service_account, authorized_user, external_account");
}

static int from_file(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *given = keys_setting("GOOGLE_APPLICATION_CREDENTIALS");
	const char *home = keys_setting("HOME");
	char *path = given ? xstrdup(given)
			   : xasprintf("%s/.config/gcloud/application_default_credentials.json",
				       home ? home : "");
	struct buf text = BUF_INIT;
	json_t *o = NULL;
	int rc = 0;

	if (!given && access(path, R_OK)) {
		free(path);
		return ERR_NOT_FOUND;
	}
	rc = service_load_file(path, &text, e);
	if (!rc)
		rc = json_parse(&o, text.data, text.len, e);
	if (!rc)
		rc = take_file(env, o, out, e);
	if (rc)
		err_prefix(e, "%.100s", path);
	service_wipe_json(o);
	service_wipe(&text);
	free(path);
	return rc;
}

static int from_metadata(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *host = keys_setting("GCE_METADATA_HOST"), *off = keys_setting("NO_GCE_CHECK");
	char *url = xasprintf(
		"http://%s/computeMetadata/v1/instance/service-accounts/default/token",
		host ? host : "metadata.google.internal");
	const struct service_request ask = { .method = "GET",
					     .url = url,
					     .header = "Metadata-Flavor: Google",
					     .connect_ns = SERVICE_METADATA_NS };
	struct buf answer = BUF_INIT;
	int status, rc = ERR_NOT_FOUND;

	if (!off || strcmp(off, "true"))
		rc = service_ask(env, &ask, &status, &answer, NULL);
	if (rc)
		rc = host ? err_set(e, ERR_CLOSED, "%.60s does not answer", host) : ERR_NOT_FOUND;
	else
		rc = service_take_bearer(out, "the metadata server", status, &answer, e);
	service_wipe(&answer);
	free(url);
	return rc;
}

static const struct keys_source sources[] = {
	{ "file", from_file },
	{ "metadata", from_metadata },
};

struct keys_chain *gs_chain_new(const char *ca_file)
{
	return keys_chain_new(&(struct keys_conf){
		.sources = sources,
		.n = ARRAY_SIZE(sources),
		.looked =
			"there is no file (GOOGLE_APPLICATION_CREDENTIALS), and no metadata server "
			"answers",
		.ca_file = ca_file });
}
