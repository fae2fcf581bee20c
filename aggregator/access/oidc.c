/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/oidc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "aggregator/access/jwt.h"
#include "base/buf.h"
#include "base/clean_text.h"
#include "base/conf.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "json/json_text.h"
#include "net/address.h"
#include "net/http_client_pool.h"

#define DISCOVERY	 "/.well-known/openid-configuration"
#define FETCH_TIMEOUT_NS (10 * NS_PER_S)
#define GROUPS_MOST	 512 /* of a token */

/* What members of a group may do. */
struct grant {
	char *group;
	enum role role;
	struct spaces where;
};

struct check {
	struct oidc *oidc;
	char *token;
	json_t *keys; /* a reference: those that were known when the check began */
	bool was_fetched; /* for this check */
	struct principal *principal;
	oidc_fn fn;
	void *arg;
	int rc;
	struct err e;
	STAILQ_ENTRY(check) waiting;
};

struct oidc {
	struct oidc_env env;
	const char *client;
	struct grant *grants;
	size_t n_grants, n_checks;
	struct http_pool *http;
	_Atomic bool cancelled;
	json_t *keys; /* NULL before the first fetch */
	int64_t keys_mono_ns; /* when they were fetched */
	bool is_fetching;
	int64_t fetched_mono_ns; /* the begin of the last fetch */
	STAILQ_HEAD(, check) waiting; /* for the fetch under way */
	json_t *fetched; /* the worker's: what a fetch has brought */
	int fetch_rc;
	struct err fetch_error;
};

/* ---- settings ---- */

static int read_grant(struct grant *g, const char *text, struct err *e)
{
	const char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
	char *role;
	int rc;

	if (!equals || equals == text)
		return err_set(e, ERR_INVALID,
			       "oidc-grant '%.80s': use GROUP=ROLE or GROUP=ROLE:NAMESPACE,...",
			       text);
	g->group = xstrndup(text, (size_t)(equals - text));
	role = colon ? xstrndup(equals + 1, (size_t)(colon - equals - 1)) : xstrdup(equals + 1);
	rc = role_parse(&g->role, role, e);
	if (!rc)
		rc = spaces_parse(&g->where, colon ? colon + 1 : "*", e);
	free(role);
	return rc ? err_prefix(e, "oidc-grant '%.80s'", text) : 0;
}

static int check_env(const struct oidc_env *env, struct err *e)
{
	if (!env->audience || !*env->audience)
		return err_set(e, ERR_INVALID, "oidc-issuer needs --oidc-audience");
	if (!env->grants->n || env->grants->n > OIDC_GRANTS_MOST)
		return err_set(e, ERR_INVALID,
			       "oidc-issuer needs --oidc-grant GROUP=ROLE, at most %d of them",
			       OIDC_GRANTS_MOST);
	return address_check_url(env->issuer, "oidc-issuer", e);
}

int oidc_new(struct oidc **out, const struct oidc_env *env, struct err *e)
{
	struct oidc *o;
	int rc = check_env(env, e);

	if (rc)
		return rc;
	o = xcalloc(1, sizeof(*o));
	o->env = *env;
	o->client = env->client && *env->client ? env->client : env->audience;
	STAILQ_INIT(&o->waiting);
	o->grants = xcalloc(env->grants->n, sizeof(*o->grants));
	for (; o->n_grants < env->grants->n && !rc; o->n_grants++)
		rc = read_grant(&o->grants[o->n_grants], env->grants->items[o->n_grants], e);
	if (rc) {
		oidc_free(o);
		return rc;
	}
	o->http = http_pool_new(env->ca_file && *env->ca_file ? env->ca_file : NULL);
	*out = o;
	return 0;
}

void oidc_stop(struct oidc *o)
{
	if (o)
		atomic_store(&o->cancelled, true);
}

void oidc_free(struct oidc *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->n_grants; i++) {
		free(o->grants[i].group);
		spaces_release(&o->grants[i].where);
	}
	free(o->grants);
	json_decref(o->keys);
	http_pool_free(o->http);
	free(o);
}

/* ---- a person, on a worker ---- */

static bool has_group(const json_t *groups, const char *group)
{
	const json_t *one;
	size_t i;

	if (json_is_string(groups))
		return !strcmp(json_string_value(groups), group);
	json_array_foreach(groups, i, one)
	{
		if (i < GROUPS_MOST && json_is_string(one) &&
		    !strcmp(json_string_value(one), group))
			return true;
	}
	return false;
}

static int make_principal(struct check *c, const json_t *claims)
{
	const struct oidc *o = c->oidc;
	const json_t *groups = json_object_get(claims, o->env.role_claim);
	const char *name = json_get_text(claims, o->env.name_claim);
	double left_s = json_number_value(json_object_get(claims, "exp")) + JWT_SKEW_S -
			(double)(now_real_ns() / NS_PER_S);
	char clean[PRINCIPAL_NAME_BYTES];

	if (!*name)
		return err_set(&c->e, ERR_DENIED, "the token has no claim '%.40s' with a name",
			       o->env.name_claim);
	/* Two people must not become one by what principal_new() does to a name. */
	clean_text(clean, sizeof(clean), name, strlen(name));
	if (strcmp(clean, name) != 0)
		return err_set(&c->e, ERR_DENIED,
			       "the token's claim '%.40s' is no name that can be "
			       "shown",
			       o->env.name_claim);
	c->principal = principal_new(name, "oidc");
	c->principal->until_mono_ns = now_mono_ns() +
				      (int64_t)(left_s < 86400 ? left_s : 86400) * NS_PER_S;
	for (size_t i = 0; i < o->n_grants; i++)
		if (has_group(groups, o->grants[i].group))
			principal_grant(c->principal, o->grants[i].role, &o->grants[i].where);
	return 0;
}

static void run_check(void *arg)
{
	struct check *c = arg;
	const struct jwt_rules rules = { .issuer = c->oidc->env.issuer,
					 .audience = c->oidc->env.audience,
					 .client = c->oidc->client,
					 .now_s = now_real_ns() / NS_PER_S };
	json_t *claims = NULL;

	c->rc = jwt_verify(&claims, c->token, c->keys, &rules, &c->e);
	if (!c->rc)
		c->rc = make_principal(c, claims);
	json_decref(claims);
}

/* ---- keys ---- */

static int get_document(struct oidc *o, const char *url, struct buf *text, struct err *e)
{
	const struct http_request req = { .method = "GET",
					  .url = url,
					  .fd = -1,
					  .deadline_mono_ns = now_mono_ns() + FETCH_TIMEOUT_NS,
					  .answer_max = JWT_KEYS_BYTES,
					  .cancelled = &o->cancelled };
	int status, rc = http_pool_request(o->http, &req, &status, text, e);

	if (!rc && status != 200)
		rc = err_set(e, ERR_PEER, "it answers %d", status);
	return rc ? err_prefix(e, "the OpenID provider") : 0;
}

/* Where the keys are; the caller frees it. */
static int discover(struct oidc *o, char **keys_url, struct err *e)
{
	char *url = xasprintf("%s" DISCOVERY, o->env.issuer);
	struct buf text = BUF_INIT;
	json_t *doc = NULL;
	int rc = get_document(o, url, &text, e);

	if (!rc)
		rc = json_parse(&doc, text.data, text.len, e);
	if (!rc && strcmp(json_get_text(doc, "issuer"), o->env.issuer) != 0)
		rc = err_set(e, ERR_PEER, "the OpenID provider calls itself '%.100s'",
			     json_get_text(doc, "issuer"));
	if (!rc)
		rc = address_check_url(json_get_text(doc, "jwks_uri"), "the provider's jwks_uri",
				       e);
	if (!rc)
		*keys_url = xstrdup(json_get_text(doc, "jwks_uri"));
	json_decref(doc);
	buf_release(&text);
	free(url);
	return rc;
}

static void run_fetch(void *arg)
{
	struct oidc *o = arg;
	struct buf text = BUF_INIT;
	char *url = NULL;

	o->fetched = NULL;
	o->fetch_rc = discover(o, &url, &o->fetch_error);
	if (!o->fetch_rc)
		o->fetch_rc = get_document(o, url, &text, &o->fetch_error);
	if (!o->fetch_rc)
		o->fetch_rc = jwt_read_keys(&o->fetched, text.data, text.len, &o->fetch_error);
	free(url);
	buf_release(&text);
}

static void begin_check(struct check *c);
static void end_check(struct check *c);

static void done_fetch(void *arg)
{
	struct oidc *o = arg;
	STAILQ_HEAD(, check) waiting = STAILQ_HEAD_INITIALIZER(waiting);
	struct check *c;

	o->is_fetching = false;
	if (o->fetch_rc) {
		log_warn("AGG-OIDC", "state=no-keys reason=\"%s\"", o->fetch_error.msg);
	} else {
		json_decref(o->keys);
		o->keys = o->fetched;
		o->keys_mono_ns = now_mono_ns();
		log_info("AGG-OIDC", "state=keys n=%zu",
			 json_array_size(json_object_get(o->keys, "keys")));
	}
	STAILQ_CONCAT(&waiting, &o->waiting);
	while ((c = STAILQ_FIRST(&waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&waiting, waiting);
		if (o->fetch_rc && (!o->keys || c->rc == ERR_NOT_FOUND)) {
			c->rc = ERR_BUSY;
			c->e = o->fetch_error;
			c->e.code = ERR_BUSY;
			end_check(c);
		} else {
			begin_check(c);
		}
	}
}

/* A key that the provider does not list any more may be a stolen one. */
static bool keys_are_old(const struct oidc *o)
{
	return now_mono_ns() - o->keys_mono_ns >= o->env.hold_ns;
}

/* False: keys were fetched a moment ago, and an invented name of a key is no reason to fetch them again. */
static bool await_keys(struct check *c)
{
	struct oidc *o = c->oidc;
	int64_t now_ns = now_mono_ns();

	if (c->was_fetched)
		return false;
	if (!o->is_fetching && o->fetched_mono_ns && now_ns - o->fetched_mono_ns < o->env.fetch_ns)
		return false;
	c->was_fetched = true;
	STAILQ_INSERT_TAIL(&o->waiting, c, waiting);
	if (!o->is_fetching) {
		o->is_fetching = true;
		o->fetched_mono_ns = now_ns;
		jobs_work(o->env.jobs, run_fetch, done_fetch, o);
	}
	return true;
}

/* ---- checks ---- */

static void end_check(struct check *c)
{
	c->oidc->n_checks--;
	if (c->rc == ERR_NOT_FOUND)
		c->e.code = ERR_DENIED;
	c->fn(c->arg, c->rc ? NULL : c->principal, &c->e);
	principal_unref(c->principal);
	json_decref(c->keys);
	secret_free(c->token);
	free(c);
}

static void done_check(void *arg)
{
	struct check *c = arg;

	if (c->rc != ERR_NOT_FOUND || !await_keys(c))
		end_check(c);
}

static void begin_check(struct check *c)
{
	json_decref(c->keys);
	c->keys = json_incref(c->oidc->keys);
	jobs_request(c->oidc->env.jobs, run_check, done_check, c);
}

int oidc_check(struct oidc *o, const char *token, oidc_fn fn, void *arg, struct err *e)
{
	struct check *c;

	if (!jwt_has_form(token))
		return err_set(e, ERR_DENIED, "this token is not known, and is no signed one");
	if (o->n_checks == OIDC_CHECKS_MOST)
		return err_set(e, ERR_BUSY, "%d tokens are being checked: try again",
			       OIDC_CHECKS_MOST);
	c = xcalloc(1, sizeof(*c));
	*c = (struct check){ .oidc = o, .token = xstrdup(token), .fn = fn, .arg = arg };
	o->n_checks++;
	if ((!o->keys || keys_are_old(o)) && await_keys(c))
		return 0;
	if (o->keys) {
		begin_check(c);
	} else {
		c->rc = err_set(&c->e, ERR_BUSY, "the OpenID provider's keys are not known: %.150s",
				o->fetch_error.msg);
		end_check(c);
	}
	return 0;
}

bool oidc_is_issuer(const struct oidc *o, const char *token)
{
	return jwt_claims_issuer(token, o->env.issuer);
}
