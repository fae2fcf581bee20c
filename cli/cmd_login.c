/* SPDX-License-Identifier: Apache-2.0 */
/* Signs in at an OpenID provider for one context, and out again: tutti login, tutti logout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/login.h"
#include "cli/provider.h"

struct conf {
	struct api_conf api;
	char *issuer, *client, *scope, *resource, *issuer_ca;
};

static const struct conf_field fields[] = {
	API_FIELDS(struct conf),
	CONF_ONCE(struct conf, issuer, NULL,
		  "URL of the OpenID provider; without it that of the last time"),
	CONF_ONCE(struct conf, client, NULL, "id of this program at the provider (default: tutti)"),
	CONF_ONCE(struct conf, scope, NULL, "what to ask for (default: openid offline_access)"),
	CONF_ONCE(
		struct conf, resource, NULL,
		"send an access token for this resource, the aggregator's --oidc-audience; without "
		"it the ID token is sent"),
	CONF_ONCE(struct conf, issuer_ca, NULL,
		  "PEM file with the authorities of the provider; the system's without it"),
	{ 0 }
};

static int check_context(const struct api_conf *api, const char *verb, struct err *e)
{
	if (!*api->place->context)
		return err_set(e, ERR_INVALID,
			       "a sign-in belongs to a context: tutti context add NAME URL, then "
			       "tutti %s without --server",
			       verb);
	return 0;
}

/* From the flag, else from the last time, else the default. */
static void choose(json_t *login, const json_t *last, const char *key, const char *flag,
		   const char *otherwise)
{
	const char *before = last ? json_get_text(last, key) : "";

	json_put_text(login, key, flag ? flag : *before ? before : otherwise);
}

static int make_login(const struct conf *conf, const json_t *last, json_t *login, struct err *e)
{
	char *ca = NULL;

	if (conf->issuer_ca && *conf->issuer_ca && !(ca = realpath(conf->issuer_ca, NULL)))
		return err_errno(e, "%s", conf->issuer_ca);
	choose(login, last, "issuer", conf->issuer, "");
	choose(login, last, "client", conf->client, "tutti");
	choose(login, last, "scope", conf->scope, "openid offline_access");
	choose(login, last, "resource", conf->resource, "");
	choose(login, last, "ca", ca, "");
	json_put_text(login, "refresh_token", "");
	free(ca);
	if (!*json_get_text(login, "issuer"))
		return err_set(e, ERR_INVALID, "name the OpenID provider: --issuer URL");
	return 0;
}

static void show_code(const struct device_code *c)
{
	fprintf(stderr, "open %s\nand type the code %s\n", c->uri, c->user_code);
	if (c->whole_uri)
		fprintf(stderr, "or open %s\n", c->whole_uri);
	fflush(stderr);
}

static int sign_in(const struct api_conf *api, json_t *login, struct err *e)
{
	struct device_code code = { 0 };
	struct provider p;
	json_t *answer = NULL;
	int rc = provider_open(&p, json_get_text(login, "issuer"), json_get_text(login, "client"),
			       json_get_text(login, "resource"), json_get_text(login, "ca"), e);

	if (!rc)
		rc = provider_begin(&p, json_get_text(login, "scope"), &code, e);
	if (!rc) {
		show_code(&code);
		rc = provider_await(&p, &code, &answer, e);
	}
	if (!rc)
		rc = login_store(api->place, login, answer, e);
	json_decref(answer);
	device_code_free(&code);
	provider_close(&p);
	return rc;
}

static void print_who(const struct conf *conf, const json_t *login, json_t *who)
{
	char until[25];

	time_iso(json_get_int(login, "ends_s") * NS_PER_S, until);
	if (conf->api.json) {
		json_put_text(who, "context", conf->api.place->context);
		json_put_text(who, "issuer", json_get_text(login, "issuer"));
		json_put_text(who, "token_until", until);
		json_put_bool(who, "is_refreshed", *json_get_text(login, "refresh_token"));
		api_print(who);
		return;
	}
	printf("signed in to %s as %s, %s%s%s\n", conf->api.place->context,
	       json_get_text(who, "name"), json_get_text(who, "role"),
	       *json_get_text(login, "refresh_token") ? "" : ", until ",
	       *json_get_text(login, "refresh_token") ? "" : until);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *last = NULL, *login = NULL, *who = NULL;
	int rc = check_context(&conf->api, "login", e);

	(void)argc;
	(void)argv;
	if (!rc && conf->api.token_file && *conf->api.token_file)
		rc = err_set(e, ERR_INVALID,
			     "%s is sent as the token, and comes before a sign-in: tutti context "
			     "add %s URL without --token-file",
			     conf->api.token_file, conf->api.place->context);
	if (rc)
		return rc;
	rc = login_load(conf->api.place, &last, e);
	login = json_object();
	if (!rc)
		rc = make_login(conf, last, login, e);
	if (!rc)
		rc = sign_in(&conf->api, login, e);
	if (!rc) {
		rc = api_call(&conf->api, "GET", "/api/v1/whoami", NULL, &who, e);
		if (rc)
			err_prefix(e, "signed in at the provider, but the aggregator says");
	}
	if (!rc)
		print_who(conf, login, who);
	json_decref(who);
	json_decref(login);
	json_decref(last);
	return rc;
}

/* ---- out ---- */

static int tell_provider(const json_t *login, struct err *e)
{
	struct provider p;
	int rc = provider_open(&p, json_get_text(login, "issuer"), json_get_text(login, "client"),
			       "", json_get_text(login, "ca"), e);

	if (!rc)
		rc = provider_revoke(&p, json_get_text(login, "refresh_token"), e);
	provider_close(&p);
	return rc;
}

static int run_logout(const void *arg, int argc, char **argv, struct err *e)
{
	const struct api_conf *api = arg;
	json_t *login = NULL, *o;
	struct err why;
	int rc = check_context(api, "logout", e);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = login_remove(api->place->context, &login, e);
	if (rc)
		return rc;
	if (login && *json_get_text(login, "refresh_token") && tell_provider(login, &why))
		fprintf(stderr, "tutti logout: the provider was not told: %s\n", why.msg);
	if (api->json) {
		o = json_object();
		json_put_text(o, "context", api->place->context);
		json_put_bool(o, "was_signed_in", login != NULL);
		api_print(o);
		json_decref(o);
	} else {
		printf(login ? "signed out of %s\n" : "there was no sign-in to %s\n",
		       api->place->context);
	}
	json_decref(login);
	return 0;
}

const struct cmd cmd_login = {
	.name = "login",
	.max_args = 0,
	.summary = "sign in at an OpenID provider, for one context; tokens are refreshed",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};

const struct cmd cmd_logout = {
	.name = "logout",
	.max_args = 0,
	.summary = "sign out: forget the context's tokens, and tell the provider",
	.fields = api_fields,
	.conf_size = sizeof(struct api_conf),
	.run = run_logout,
};
