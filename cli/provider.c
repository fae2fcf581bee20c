/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/provider.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "net/address.h"
#include "net/http_client_pool.h"

#define DISCOVERY	 "/.well-known/openid-configuration"
#define DEVICE_GRANT	 "urn:ietf:params:oauth:grant-type:device_code"
#define CALL_TIMEOUT_NS	 (15 * NS_PER_S)
#define INTERVAL_S	 5 /* between two questions, where the provider names none */
#define SLOWER_NS	 (5 * NS_PER_S) /* more, for each "slow_down" */
#define CODE_MOST_LIFE_S 3600

/* ---- calls ---- */

/* `form` is NULL for a GET. `*doc` is NULL if the answer is no JSON object. */
static int call(const struct provider *p, const char *url, const struct buf *form, int *status,
		json_t **doc, struct err *e)
{
	static const char *const headers[] = { "Accept: application/json",
					       "Content-Type: application/x-www-form-urlencoded",
					       NULL };
	const struct http_request req = { .method = form ? "POST" : "GET",
					  .url = url,
					  .headers = headers,
					  .has_body = form != NULL,
					  .data = form ? form->data : NULL,
					  .len = form ? form->len : 0,
					  .fd = -1,
					  .deadline_mono_ns = now_mono_ns() + CALL_TIMEOUT_NS,
					  .answer_max = PROVIDER_ANSWER_BYTES };
	struct buf text = BUF_INIT;
	json_t *any = NULL;
	int rc = http_pool_request(p->http, &req, status, &text, e);

	*doc = NULL;
	if (!rc && !json_parse(&any, buf_str(&text), text.len, NULL) && json_is_object(any))
		*doc = json_clean(any);
	json_decref(any);
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_release(&text);
	return rc ? err_prefix(e, "the OpenID provider") : 0;
}

static void put(struct buf *form, const char *name, const char *value)
{
	char *word = api_escape(value);

	if (!*value) {
		free(word);
		return;
	}
	buf_addf(form, "%s%s=%s", form->len ? "&" : "", name, word);
	explicit_bzero(word, strlen(word));
	free(word);
}

static void release_form(struct buf *form)
{
	if (form->data)
		explicit_bzero(form->data, form->len);
	buf_release(form);
}

/* What an answer other than 2xx says. */
static int refusal(const json_t *doc, int status, struct err *e)
{
	const char *error = doc ? json_get_text(doc, "error") : "";
	const char *why = doc ? json_get_text(doc, "error_description") : "";

	if (!*error)
		return err_set(e, ERR_PEER, "the OpenID provider answers %d", status);
	return err_set(e, status / 100 == 4 ? ERR_DENIED : ERR_PEER,
		       "the OpenID provider refuses: %.60s%s%.120s", error, *why ? ": " : "", why);
}

/* ---- what it says of itself ---- */

/* A URL that it names. */
static int check_url(const char *url, const char *name, struct err *e)
{
	if (!address_check_url(url, name, e))
		return 0;
	return e->code = ERR_PEER;
}

static int take_url(const json_t *doc, const char *name, char **out, struct err *e)
{
	const char *url = json_get_text(doc, name);
	int rc;

	if (!*url)
		return err_set(e, ERR_UNSUPPORTED,
			       "the OpenID provider has no %s: it knows no sign-in by a code",
			       name);
	rc = check_url(url, name, e);
	if (!rc)
		*out = xstrdup(url);
	return rc;
}

static int discover(struct provider *p, const char *issuer, struct err *e)
{
	char *url = xasprintf("%s" DISCOVERY, issuer);
	json_t *doc = NULL;
	int status, rc = call(p, url, NULL, &status, &doc, e);

	if (!rc && status != 200)
		rc = refusal(doc, status, e);
	if (!rc && !doc)
		rc = err_set(e, ERR_PEER, "%.150s is no OpenID provider", issuer);
	if (!rc && strcmp(json_get_text(doc, "issuer"), issuer) != 0)
		rc = err_set(e, ERR_PEER, "the OpenID provider calls itself '%.100s'",
			     json_get_text(doc, "issuer"));
	if (!rc)
		rc = take_url(doc, "token_endpoint", &p->token_url, e);
	if (!rc)
		rc = take_url(doc, "device_authorization_endpoint", &p->device_url, e);
	if (!rc && *json_get_text(doc, "revocation_endpoint"))
		rc = take_url(doc, "revocation_endpoint", &p->revoke_url, e);
	json_decref(doc);
	free(url);
	return rc;
}

int provider_open(struct provider *p, const char *issuer, const char *client, const char *resource,
		  const char *ca_file, struct err *e)
{
	int rc;

	*p = (struct provider){ .client = client, .resource = resource };
	rc = address_check_url(issuer, "issuer", e);
	if (rc)
		return rc;
	p->http = http_pool_new(ca_file && *ca_file ? ca_file : NULL);
	return discover(p, issuer, e);
}

void provider_close(struct provider *p)
{
	http_pool_free(p->http);
	free(p->device_url);
	free(p->token_url);
	free(p->revoke_url);
	*p = (struct provider){ 0 };
}

/* ---- the device flow ---- */

static int64_t seconds(const json_t *doc, const char *name, int64_t otherwise, int64_t most)
{
	double s = json_number_value(json_object_get(doc, name));

	return !(s >= 1) ? otherwise : s > (double)most ? most : (int64_t)s;
}

static int read_code(const json_t *doc, struct device_code *out, struct err *e)
{
	const char *whole = json_get_text(doc, "verification_uri_complete");

	out->code = xstrdup(json_get_text(doc, "device_code"));
	out->user_code = xstrdup(json_get_text(doc, "user_code"));
	out->uri = xstrdup(json_get_text(doc, "verification_uri"));
	out->interval_ns = seconds(doc, "interval", INTERVAL_S, CODE_MOST_LIFE_S) * NS_PER_S;
	out->ends_mono_ns = now_mono_ns() +
			    seconds(doc, "expires_in", CODE_MOST_LIFE_S, CODE_MOST_LIFE_S) *
				    NS_PER_S;
	if (*whole && !address_check_url(whole, "uri", NULL))
		out->whole_uri = xstrdup(whole);
	if (!*out->code || !*out->user_code || !*out->uri)
		return err_set(e, ERR_PEER, "the OpenID provider's answer has no code");
	return check_url(out->uri, "the provider's verification_uri", e);
}

int provider_begin(const struct provider *p, const char *scope, struct device_code *out,
		   struct err *e)
{
	struct buf form = BUF_INIT;
	json_t *doc = NULL;
	int status, rc;

	*out = (struct device_code){ 0 };
	put(&form, "client_id", p->client);
	put(&form, "scope", scope);
	put(&form, "resource", p->resource);
	rc = call(p, p->device_url, &form, &status, &doc, e);
	if (!rc && status / 100 != 2)
		rc = refusal(doc, status, e);
	if (!rc)
		rc = read_code(doc, out, e);
	json_decref(doc);
	buf_release(&form);
	return rc;
}

void device_code_free(struct device_code *c)
{
	free(c->code);
	free(c->user_code);
	free(c->uri);
	free(c->whole_uri);
	*c = (struct device_code){ 0 };
}

static int take_tokens(json_t *doc, json_t **answer, struct err *e)
{
	if (!doc || !*json_get_text(doc, "access_token")) {
		json_decref(doc);
		return err_set(e, ERR_PEER, "the OpenID provider's answer has no token");
	}
	*answer = doc;
	return 0;
}

/* Whether the same question can have another answer later; if so, waits less or longer until then. */
static bool is_to_wait(struct device_code *c, int rc, int status, const json_t *doc)
{
	const char *error = doc ? json_get_text(doc, "error") : "";

	if (rc == ERR_CLOSED || rc == ERR_TIMEOUT || (!rc && (status / 100 == 5 || status == 429)))
		c->interval_ns += c->interval_ns;
	else if (!rc && !strcmp(error, "slow_down"))
		c->interval_ns += SLOWER_NS;
	else if (rc || strcmp(error, "authorization_pending"))
		return false;
	return true;
}

static int ended(struct err *e)
{
	return err_set(e, ERR_TIMEOUT, "the code has ended: it was not typed in time");
}

/* What an answer means that is no reason to wait. */
static int judge(int rc, int status, json_t *doc, json_t **answer, struct err *e)
{
	const char *error = doc ? json_get_text(doc, "error") : "";

	if (rc)
		return rc;
	if (status / 100 == 2)
		return take_tokens(doc, answer, e);
	if (!strcmp(error, "access_denied"))
		rc = err_set(e, ERR_DENIED, "the sign-in was refused at the OpenID provider");
	else if (!strcmp(error, "expired_token"))
		rc = ended(e);
	else
		rc = refusal(doc, status, e);
	json_decref(doc);
	return rc;
}

int provider_await(const struct provider *p, struct device_code *c, json_t **answer, struct err *e)
{
	struct buf form = BUF_INIT;
	json_t *doc = NULL;
	int status = 0, rc = 0;
	bool again = true;

	put(&form, "grant_type", DEVICE_GRANT);
	put(&form, "device_code", c->code);
	put(&form, "client_id", p->client);
	put(&form, "resource", p->resource);
	while (again) {
		int64_t left_ns = c->ends_mono_ns - now_mono_ns();

		if (left_ns <= 0)
			break;
		now_sleep_until_mono(now_mono_ns() +
				     (c->interval_ns < left_ns ? c->interval_ns : left_ns));
		rc = call(p, p->token_url, &form, &status, &doc, e);
		again = is_to_wait(c, rc, status, doc);
		if (again)
			json_decref(doc);
	}
	release_form(&form);
	return again ? ended(e) : judge(rc, status, doc, answer, e);
}

/* ---- later ---- */

int provider_refresh(const struct provider *p, const char *refresh_token, json_t **answer,
		     struct err *e)
{
	struct buf form = BUF_INIT;
	json_t *doc = NULL;
	int status, rc;

	put(&form, "grant_type", "refresh_token");
	put(&form, "refresh_token", refresh_token);
	put(&form, "client_id", p->client);
	put(&form, "resource", p->resource);
	rc = call(p, p->token_url, &form, &status, &doc, e);
	release_form(&form);
	return judge(rc, status, doc, answer, e);
}

int provider_revoke(const struct provider *p, const char *refresh_token, struct err *e)
{
	struct buf form = BUF_INIT;
	json_t *doc = NULL;
	int status, rc;

	if (!p->revoke_url)
		return 0;
	put(&form, "token", refresh_token);
	put(&form, "token_type_hint", "refresh_token");
	put(&form, "client_id", p->client);
	rc = call(p, p->revoke_url, &form, &status, &doc, e);
	release_form(&form);
	if (!rc && status / 100 != 2)
		rc = refusal(doc, status, e);
	json_decref(doc);
	return rc;
}
