/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/access.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/access/kube_people.h"
#include "aggregator/access/oidc.h"
#include "aggregator/access/tokens.h"
#include "base/conf.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"

#define RELOAD_NS NS_PER_S /* between two looks at the file of tokens */

#define KNOWN_MOST 1024

/* A token that was checked elsewhere, for as long as that holds. */
struct known {
	char digest[DIGEST_HEX_BYTES];
	struct principal *principal; /* NULL = a free place */
};

struct access {
	struct access_env env;
	struct tokens tokens;
	struct principal *anonymous, *admin; /* admin: of the token of --token-file */
	struct oidc *oidc; /* NULL = none */
	struct kube_people *kubernetes; /* NULL = none */
	struct known known[KNOWN_MOST]; /* a token has one place; another one may take it */
	struct loop_timer reload;
};

/* ---- static tokens ---- */

static bool has_file(const struct access *a)
{
	return a->env.tokens_file && *a->env.tokens_file;
}

static void reload(void *arg)
{
	struct access *a = arg;
	struct err e;

	if (tokens_reload(&a->tokens, &e))
		log_warn("AGG-TOKENS", "state=unchanged reason=\"%s\"", e.msg);
	loop_timer_in(a->env.jobs->loop, &a->reload, RELOAD_NS, reload, a);
}

static struct principal *find_static(const struct access *a, const char *token)
{
	char digest[DIGEST_HEX_BYTES];

	if (a->env.admin_token && secret_equal(a->env.admin_token, token))
		return a->admin;
	if (!a->tokens.n)
		return NULL;
	digest_sha256(token, strlen(token), digest);
	return tokens_find(&a->tokens, digest);
}

/* ---- tokens that were checked elsewhere ---- */

static struct known *place_of(struct access *a, const char *digest)
{
	return &a->known[strtoul((char[]){ digest[0], digest[1], digest[2], digest[3], '\0' }, NULL,
				 16) %
			 KNOWN_MOST];
}

static struct principal *find_known(struct access *a, const char *token)
{
	char digest[DIGEST_HEX_BYTES];
	struct known *place;

	digest_sha256(token, strlen(token), digest);
	place = place_of(a, digest);
	if (!place->principal || strcmp(place->digest, digest) != 0)
		return NULL;
	return principal_holds(place->principal) ? place->principal : NULL;
}

static void keep_known(struct access *a, const char *token, struct principal *p)
{
	char digest[DIGEST_HEX_BYTES];
	struct known *place;

	digest_sha256(token, strlen(token), digest);
	place = place_of(a, digest);
	principal_unref(place->principal);
	memcpy(place->digest, digest, sizeof(digest));
	place->principal = principal_ref(p);
}

/* ---- checking ---- */

const char *access_bearer(const char *authorization)
{
	static const char scheme[] = "Bearer ";

	if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0)
		return NULL;
	return authorization + strlen(scheme);
}

/* Whether someone else can be asked about tokens. */
static bool is_remote(const struct access *a)
{
	return a->oidc || a->kubernetes;
}

bool access_has_tokens(const struct access *a)
{
	return a->env.admin_token || has_file(a) || is_remote(a);
}

bool access_has_certificates(const struct access *a)
{
	return a->env.certificates && a->env.certificates->n;
}

static int check_length(const char *token, struct err *e)
{
	size_t len = strlen(token);

	if (len > TOKEN_MOST_BYTES)
		return err_set(e, ERR_DENIED, "a token of %zu bytes: the longest has %d", len,
			       TOKEN_MOST_BYTES);
	return 0;
}

struct principal *access_check_now(struct access *a, const char *token, struct err *e)
{
	struct principal *p = NULL;

	if (check_length(token, e))
		return NULL;
	p = find_static(a, token);
	if (!p && is_remote(a))
		p = find_known(a, token);
	if (!p)
		err_set(e, ERR_DENIED, "this token is not known");
	return p ? principal_ref(p) : NULL;
}

/* A check by the provider of the token. */
struct remote {
	struct access *access;
	char *token;
	access_fn fn;
	void *arg;
};

static void on_remote(void *arg, struct principal *p, const struct err *why)
{
	struct remote *r = arg;

	if (p)
		keep_known(r->access, r->token, p);
	r->fn(r->arg, p, why);
	secret_free(r->token);
	free(r);
}

static void on_kube(void *arg, void *found, const struct err *why)
{
	on_remote(arg, found, why);
}

static void check_remote(struct access *a, const char *token, access_fn fn, void *arg)
{
	struct remote *r = xcalloc(1, sizeof(*r));
	struct err e = { 0 };
	int rc;

	*r = (struct remote){ .access = a, .token = xstrdup(token), .fn = fn, .arg = arg };
	/* A token names who gave it: only he is asked about it. */
	if (a->oidc && (!a->kubernetes || oidc_is_issuer(a->oidc, token)))
		rc = oidc_check(a->oidc, token, on_remote, r, &e);
	else
		rc = kube_people_check(a->kubernetes, token, on_kube, r, &e);
	if (rc)
		on_remote(r, NULL, &e);
}

void access_check(struct access *a, const char *token, access_fn fn, void *arg)
{
	struct err e = { 0 };
	struct principal *p = access_check_now(a, token, &e);

	if (!p && is_remote(a) && strlen(token) <= TOKEN_MOST_BYTES) {
		check_remote(a, token, fn, arg);
		return;
	}
	fn(arg, p, &e);
	principal_unref(p);
}

/* ---- callers without a token ---- */

struct principal *access_anonymous(const struct access *a)
{
	return principal_ref(a->anonymous);
}

struct principal *access_of_certificate(const struct access *a, const char *common_name)
{
	const struct conf_list *names = a->env.certificates;
	struct principal *p;

	for (size_t i = 0; names && *common_name && i < names->n; i++) {
		if (strcmp(common_name, names->items[i]) != 0)
			continue;
		p = principal_new(common_name, "certificate");
		principal_grant_all(p, ROLE_ADMIN);
		return p;
	}
	return NULL;
}

/* ---- life ---- */

static struct principal *new_everywhere(const char *name, const char *how, enum role role)
{
	struct principal *p = principal_new(name, how);

	principal_grant_all(p, role);
	return p;
}

int access_new(struct access **out, const struct access_env *env, struct err *e)
{
	struct access *a = xcalloc(1, sizeof(*a));
	int rc = 0;

	a->env = *env;
	a->anonymous = new_everywhere("anonymous", "anonymous", env->anonymous);
	a->admin = new_everywhere("token-file", "token", ROLE_ADMIN);
	if (env->oidc)
		rc = oidc_new(&a->oidc, env->oidc, e);
	if (!rc && env->kubernetes)
		rc = kube_people_new(&a->kubernetes, env->kubernetes, e);
	if (!rc && has_file(a))
		rc = tokens_load(&a->tokens, env->tokens_file, e);
	if (rc) {
		access_free(a);
		return rc;
	}
	if (has_file(a))
		loop_timer_in(env->jobs->loop, &a->reload, RELOAD_NS, reload, a);
	*out = a;
	return 0;
}

void access_stop(struct access *a)
{
	if (!a)
		return;
	oidc_stop(a->oidc);
	kube_people_stop(a->kubernetes);
	loop_timer_cancel(a->env.jobs->loop, &a->reload);
}

void access_free(struct access *a)
{
	if (!a)
		return;
	oidc_free(a->oidc);
	kube_people_free(a->kubernetes);
	for (size_t i = 0; i < KNOWN_MOST; i++)
		principal_unref(a->known[i].principal);
	tokens_release(&a->tokens);
	principal_unref(a->anonymous);
	principal_unref(a->admin);
	free(a);
}
