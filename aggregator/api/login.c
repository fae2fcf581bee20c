/* SPDX-License-Identifier: Apache-2.0 */
/* Browsers sign in with a token and get a cookie: event streams and links to files cannot send a token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/access/access.h"
#include "aggregator/access/audit.h"
#include "aggregator/access/browsers.h"
#include "aggregator/access/verbs.h"
#include "aggregator/api/api_impl.h"
#include "aggregator/api/events.h"
#include "base/mem.h"
#include "base/secret.h"
#include "json/json_text.h"
#include "net/http_server.h"

/* Cookies are of a host and not of a port: two aggregators of one machine have different names for theirs. */
void login_name_cookie(const char *link_key, char out[LOGIN_COOKIE_BYTES])
{
	char digest[DIGEST_HEX_BYTES];

	digest_sha256(link_key, strlen(link_key), digest);
	snprintf(out, LOGIN_COOKIE_BYTES, "tutti_%.8s", digest);
}

static bool read_cookie(const struct api *api, const struct http_req *req,
			char cookie[BROWSER_SECRET_BYTES])
{
	return browsers_read_cookie(http_header(req, "Cookie"), api->cookie, cookie);
}

const char *login_token(const struct api *api, const struct http_req *req, const char **csrf)
{
	char cookie[BROWSER_SECRET_BYTES];

	return read_cookie(api, req, cookie) ? browsers_find(api->browsers, cookie, csrf) : NULL;
}

uint64_t login_browser(const struct api *api, const struct http_req *req)
{
	char cookie[BROWSER_SECRET_BYTES];

	return !http_header(req, "Authorization") && read_cookie(api, req, cookie)
		       ? browsers_number(api->browsers, cookie)
		       : 0;
}

static void set_cookie(const struct api *api, struct http_req *req, const char *value, int life_s)
{
	char text[300];

	snprintf(text, sizeof(text), "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
		 api->cookie, value, life_s, api->env.has_tls ? "; Secure" : "");
	http_set_cookie(req, text);
	explicit_bzero(text, sizeof(text));
}

/* ---- who ---- */

static json_t *principal_json(const struct principal *p, const char *csrf)
{
	const struct spaces *view = &p->by_role[ROLE_VIEWER];
	json_t *o = json_object();

	json_put_text(o, "name", p->name);
	json_put_text(o, "how", p->how);
	json_put_text(o, "role", role_name(principal_role(p)));
	json_put(o, "namespaces", view->all ? json_null() : spaces_json(view));
	if (csrf)
		json_put_text(o, "csrf", csrf);
	return o;
}

void api_whoami(struct api *api, struct http_req *req, const char *id, const char *name)
{
	const char *csrf = NULL;
	json_t *doc;

	(void)id;
	(void)name;
	if (http_header(req, "Authorization") || !login_token(api, req, &csrf))
		csrf = NULL;
	doc = principal_json(api_principal(req), csrf);
	if (api->env.leader)
		json_put_text(doc, "leader", api->env.leader_url);
	api_answer_json(req, 200, doc);
}

/* ---- signing in ---- */

struct login {
	struct api *api;
	struct http_req *req;
	char *token;
	struct principal *principal; /* NULL: it is refused */
	struct err why;
};

static void login_free(struct login *l)
{
	principal_unref(l->principal);
	secret_free(l->token);
	free(l);
}

static void answer_login(void *arg, const struct err *not_noted)
{
	struct login *l = arg;
	struct browser_secrets secrets;

	if (!l->principal) {
		http_answer_error(l->req, l->why.code == ERR_DENIED ? 401 : 503, "%s", l->why.msg);
	} else if (not_noted) {
		api_answer_err(l->req, not_noted);
	} else {
		browsers_open(l->api->browsers, l->token, principal_owner(l->principal), &secrets);
		set_cookie(l->api, l->req, secrets.cookie, BROWSERS_LIFE_S);
		api_answer_json(l->req, 200, principal_json(l->principal, secrets.csrf));
		explicit_bzero(&secrets, sizeof(secrets));
	}
	login_free(l);
}

static void on_checked(void *arg, struct principal *p, const struct err *why)
{
	struct login *l = arg;
	json_t *entry = json_object();

	json_put_text(entry, "verb", verb_login.name);
	json_put_text(entry, "who", p ? p->name : "");
	json_put_text(entry, "how", p ? p->how : "");
	json_put_text(entry, "peer", http_peer(l->req));
	json_put_text(entry, "outcome", p ? "granted" : "refused");
	if (p) {
		l->principal = principal_ref(p);
		audit_write(l->api->env.audit, entry, answer_login, l);
	} else {
		l->why = *why;
		json_put_text(entry, "reason", why->msg);
		audit_refusal(l->api->env.audit, entry, answer_login, l);
	}
}

void api_login(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct login *l;
	json_t *doc = NULL;
	size_t len;
	const void *body = http_body(req, &len);
	const char *token;
	struct err e;

	(void)id;
	(void)name;
	if (json_parse(&doc, body, len, &e)) {
		api_answer_err(req, &e);
		return;
	}
	token = json_get_text(doc, "token");
	if (!*token) {
		http_answer_error(req, 400, "send {\"token\": TOKEN}");
	} else {
		l = xcalloc(1, sizeof(*l));
		*l = (struct login){ .api = api, .req = req, .token = xstrdup(token) };
		access_check(api->env.access, token, on_checked, l);
	}
	json_decref(doc);
}

void api_logout(struct api *api, struct http_req *req, const char *id, const char *name)
{
	char cookie[BROWSER_SECRET_BYTES];

	(void)id;
	(void)name;
	if (read_cookie(api, req, cookie))
		browsers_close(api->browsers, cookie);
	events_end_expired(api->events);
	set_cookie(api, req, "", 0);
	api_answer_json(req, 200, json_object());
}
