/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a caller is, by everything that he may show: tokens of files, certificates, tokens of an OpenID provider, whose claims
 * give roles, and tokens of a cluster, whose rights do. The provider and the cluster are a server of this test; it signs
 * with another library than the one that checks.
 */
#include "aggregator/access/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>

#include "aggregator/access/kube_people.h"
#include "aggregator/access/oidc.h"
#include "base/conf.h"
#include "base/file.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/http_server.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"

#define LETTERS 64 /* of 32 bytes in base64url, at most */

static struct jobs jobs;
static char *url; /* of the provider, and of the cluster */
static int n_fetches, n_reviews; /* of keys; of tokens */
static const char *own_token; /* that the cluster knows the aggregator by; NULL = none */

/* ---- signing ---- */

static EVP_PKEY *key;

static void base64url(const void *data, size_t len, char *out)
{
	EVP_EncodeBlock((unsigned char *)out, data, (int)len);
	out[strcspn(out, "=")] = '\0';
	for (char *c = out; *c; c++)
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
}

static void coordinate(const char *name, char out[LETTERS])
{
	unsigned char bytes[32];
	BIGNUM *n = NULL;

	CHECK(EVP_PKEY_get_bn_param(key, name, &n) == 1);
	CHECK_EQ(BN_bn2binpad(n, bytes, sizeof(bytes)), sizeof(bytes));
	BN_free(n);
	base64url(bytes, sizeof(bytes), out);
}

/* ES256: the two numbers of 32 bytes each. */
static void sign(const char *text, char *out)
{
	unsigned char der[128], raw[64];
	const unsigned char *at = der;
	size_t len = sizeof(der);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	ECDSA_SIG *sig;

	CHECK(EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1);
	CHECK(EVP_DigestSign(ctx, der, &len, (const unsigned char *)text, strlen(text)) == 1);
	sig = d2i_ECDSA_SIG(NULL, &at, (long)len);
	CHECK(sig);
	CHECK_EQ(BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, 32), 32);
	CHECK_EQ(BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + 32, 32), 32);
	ECDSA_SIG_free(sig);
	EVP_MD_CTX_free(ctx);
	base64url(raw, sizeof(raw), out);
}

/* A token with these claims, by the key of this name; yours. */
static char *token_by(const char *kid, json_t *claims_taken)
{
	char *head = xasprintf("{\"alg\":\"ES256\",\"kid\":\"%s\"}", kid);
	char *claims = json_dumps(claims_taken, JSON_COMPACT);
	char *first = xmalloc(2 * strlen(head)), *second = xmalloc(2 * strlen(claims) + 8);
	char signature[128], *signed_text, *token;

	base64url(head, strlen(head), first);
	base64url(claims, strlen(claims), second);
	signed_text = xasprintf("%s.%s", first, second);
	sign(signed_text, signature);
	token = xasprintf("%s.%s", signed_text, signature);
	free(signed_text);
	free(first);
	free(second);
	free(claims);
	free(head);
	json_decref(claims_taken);
	return token;
}

static char *token_of(json_t *claims_taken)
{
	return token_by("k", claims_taken);
}

static json_t *claims_of(const char *name, json_t *groups_taken)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o}", "iss", url, "aud", "tutti", "sub", "1",
			 "name", name, "exp", (json_int_t)(now_real_ns() / NS_PER_S + 600),
			 "groups", groups_taken);
}

/* ---- the server ---- */

static void answer(struct http_req *req, json_t *doc_taken)
{
	char *text = json_dumps(doc_taken, 0);

	CHECK(text);
	http_answer(req, 200, "application/json", text, strlen(text));
	free(text);
	json_decref(doc_taken);
}

static json_t *keys(void)
{
	char x[LETTERS], y[LETTERS];

	coordinate(OSSL_PKEY_PARAM_EC_PUB_X, x);
	coordinate(OSSL_PKEY_PARAM_EC_PUB_Y, y);
	n_fetches++;
	return json_pack("{s:[{s:s, s:s, s:s, s:s, s:s}]}", "keys", "kty", "EC", "crv", "P-256",
			 "kid", "k", "x", x, "y", y);
}

static const char *text_at(const json_t *doc, const char *first, const char *second,
			   const char *third)
{
	const json_t *at = json_object_get(json_object_get(doc, first), second);
	const char *text = json_string_value(third ? json_object_get(at, third) : at);

	return text ? text : "";
}

/* Whose a token "NAME:RIGHTS" is: NAME's. */
static json_t *token_review(const json_t *doc)
{
	char name[64];

	n_reviews++;
	snprintf(name, sizeof(name), "%s", text_at(doc, "spec", "token", NULL));
	name[strcspn(name, ":")] = '\0';
	return json_pack("{s:{s:b, s:[s], s:{s:s, s:s}}}", "status", "authenticated",
			 strcmp(name, "unknown") != 0, "audiences", "people", "user", "username",
			 name, "uid", name);
}

/* What each caller may do: lines "NAME VERB SPACE", with * for all namespaces. */
static const char rights[] = "viewer get *\nviewer list *\n"
			     "half get *\n"
			     "blind list *\nblind create *\nblind delete *\n"
			     "red get red\nred list red\nred create red\n"
			     "odd get red\nodd create red\nodd delete red\n"
			     "mixed get *\nmixed list *\nmixed create blue\nmixed delete blue\n"
			     "root get *\nroot list *\nroot create *\nroot delete *\n";

static json_t *access_review(const json_t *doc)
{
	const char *space = text_at(doc, "spec", "resourceAttributes", "namespace");
	char *everywhere, *here;
	bool may;

	CHECK_STR(text_at(doc, "spec", "resourceAttributes", "group"), "tutti.dev");
	CHECK_STR(text_at(doc, "spec", "resourceAttributes", "resource"), "captures");
	everywhere = xasprintf("%s %s *\n", text_at(doc, "spec", "user", NULL),
			       text_at(doc, "spec", "resourceAttributes", "verb"));
	here = xasprintf("%s %s %s\n", text_at(doc, "spec", "user", NULL),
			 text_at(doc, "spec", "resourceAttributes", "verb"), space);
	may = strstr(rights, everywhere) || (*space && strstr(rights, here));
	free(everywhere);
	free(here);
	return json_pack("{s:{s:b}}", "status", "allowed", may);
}

static void handle(struct http_req *req, void *arg)
{
	const char *path = http_path(req), *shown = http_header(req, "Authorization");
	size_t len;
	const void *body = http_body(req, &len);
	json_t *doc = json_loadb(body, len, 0, NULL);

	(void)arg;
	if (!strcmp(path, "/.well-known/openid-configuration")) {
		char *jwks = xasprintf("%s/keys", url);

		answer(req, json_pack("{s:s, s:s}", "issuer", url, "jwks_uri", jwks));
		free(jwks);
	} else if (!strcmp(path, "/keys")) {
		answer(req, keys());
	} else if (own_token && (!shown || strcmp(shown, own_token) != 0)) {
		http_answer_error(req, 401, "Unauthorized");
	} else if (strstr(path, "/tokenreviews")) {
		answer(req, token_review(doc));
	} else if (strstr(path, "/subjectaccessreviews")) {
		answer(req, access_review(doc));
	} else {
		CHECK_STR(path, "/api/v1/namespaces");
		answer(req, json_pack("{s:[{s:{s:s}}, {s:{s:s}}]}", "items", "metadata", "name",
				      "red", "metadata", "name", "blue"));
	}
	json_decref(doc);
}

/* ---- a caller ---- */

/* What is known of him: "ada viewer:red,blue operator:red admin:", or why he is refused. */
struct caller {
	bool done;
	int code;
	char text[400];
};

static void add_spaces(char *out, size_t size, const struct spaces *s)
{
	size_t used = strlen(out);

	if (s->all)
		snprintf(out + used, size - used, "*");
	for (size_t i = 0; i < s->n; i++, used = strlen(out))
		snprintf(out + used, size - used, "%s%s", i ? "," : "", s->names[i]);
}

static void describe(char *out, size_t size, const struct principal *p)
{
	static const char *const roles[] = { "", " viewer:", " operator:", " admin:" };

	snprintf(out, size, "%s", p->name);
	for (int role = ROLE_VIEWER; role <= (int)ROLE_ADMIN; role++) {
		snprintf(out + strlen(out), size - strlen(out), "%s", roles[role]);
		add_spaces(out, size, &p->by_role[role]);
	}
}

static void on_checked(void *arg, struct principal *p, const struct err *why)
{
	struct caller *c = arg;

	c->done = true;
	c->code = p ? 0 : why->code;
	if (p)
		describe(c->text, sizeof(c->text), p);
	else
		snprintf(c->text, sizeof(c->text), "%s", why->msg);
}

static struct caller check_token(struct access *a, const char *token)
{
	struct caller c = { 0 };

	access_check(a, token, on_checked, &c);
	RUN_UNTIL(jobs.loop, c.done);
	return c;
}

static void check_known(struct access *a, const char *token, const char *expected)
{
	struct caller c = check_token(a, token);

	CHECK_STR(c.text, expected);
}

static void check_refused(struct access *a, const char *token, const char *part)
{
	struct caller c = check_token(a, token);

	CHECK_EQ(c.code, ERR_DENIED);
	if (!strstr(c.text, part))
		CHECK_STR(c.text, part);
}

static struct access *new_access(const struct access_env *env)
{
	struct access_env with_jobs = *env;
	struct access *a;
	struct err e;

	with_jobs.jobs = &jobs;
	CHECK_OK(access_new(&a, &with_jobs, &e), e);
	return a;
}

static void end_access(struct access *a)
{
	access_stop(a);
	jobs_drain(&jobs);
	access_free(a);
}

/* ---- tests ---- */

static void test_bearer(void)
{
	CHECK_STR(access_bearer("Bearer abc"), "abc");
	CHECK_STR(access_bearer("bearer a c"), "a c");
	CHECK_STR(access_bearer("Bearer "), "");
	CHECK(!access_bearer(NULL) && !access_bearer("") && !access_bearer("Bearer"));
	CHECK(!access_bearer("Basic abc") && !access_bearer("Bearerabc"));
}

static void put_tokens(const char *path, const char *token, const char *role)
{
	unsigned char digest[32];
	char hex[65];
	FILE *out = fopen(path, "w");

	CHECK(out && EVP_Digest(token, strlen(token), digest, NULL, EVP_sha256(), NULL) == 1);
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	fprintf(out, "ada %s %s red\n", role, hex);
	CHECK(!fclose(out) && !chmod(path, 0600));
}

/* The file is read again; what was taken back holds no more. */
static void test_file(void)
{
	const char *dir = temp_dir();
	char *path = xasprintf("%s/tokens", dir), *is_long;
	struct principal *p;
	struct access *a;
	struct err e;

	put_tokens(path, "ada-secret", "operator");
	a = new_access(&(struct access_env){ .tokens_file = path, .admin_token = "root-secret" });
	CHECK(access_has_tokens(a) && !access_has_certificates(a));
	check_known(a, "ada-secret", "ada viewer:red operator:red admin:");
	check_known(a, "root-secret", "token-file viewer:* operator:* admin:*");
	check_refused(a, "ada-secre", "not known");
	check_refused(a, "ada-secret ", "not known");
	check_refused(a, "", "not known");
	is_long = xcalloc(1, 16386);
	memset(is_long, 'a', 16385);
	check_refused(a, is_long, "16385 bytes");
	free(is_long);
	p = access_check_now(a, "ada-secret", &e);
	CHECK(p && principal_holds(p));
	put_tokens(path, "other-secret", "admin");
	RUN_UNTIL(jobs.loop, !principal_holds(p));
	principal_unref(p);
	check_refused(a, "ada-secret", "not known");
	check_known(a, "other-secret", "ada viewer:red operator:red admin:red");
	end_access(a);
	CHECK(!chmod(path, 0604));
	CHECK_EQ(access_new(&a, &(struct access_env){ .tokens_file = path, .jobs = &jobs }, &e),
		 ERR_DENIED);
	free(path);
	temp_dir_remove(dir);
}

static void test_without_tokens(void)
{
	char *names[] = { (char *)"ops.example", (char *)"boss" };
	const struct conf_list certificates = { names, 2 };
	struct access *a = new_access(
		&(struct access_env){ .anonymous = ROLE_VIEWER, .certificates = &certificates });
	struct principal *p = access_anonymous(a);
	char text[400];

	CHECK(!access_has_tokens(a) && access_has_certificates(a));
	describe(text, sizeof(text), p);
	CHECK_STR(text, "anonymous viewer:* operator: admin:");
	CHECK_STR(principal_owner(p), "");
	CHECK_EQ(principal_role(p), ROLE_VIEWER);
	principal_unref(p);
	p = access_of_certificate(a, "boss");
	describe(text, sizeof(text), p);
	CHECK_STR(text, "boss viewer:* operator:* admin:*");
	CHECK_STR(principal_owner(p), "boss");
	principal_unref(p);
	CHECK(!access_of_certificate(a, "") && !access_of_certificate(a, "bos") &&
	      !access_of_certificate(a, "BOSS") && !access_of_certificate(a, "ops"));
	check_refused(a, "any", "not known");
	end_access(a);
}

static struct oidc_env oidc_of(const struct conf_list *grants)
{
	return (struct oidc_env){ .jobs = &jobs,
				  .issuer = url,
				  .audience = "tutti",
				  .name_claim = "name",
				  .role_claim = "groups",
				  .fetch_ns = 3600 * NS_PER_S,
				  .hold_ns = 3600 * NS_PER_S,
				  .grants = grants };
}

static void check_groups(struct access *a, json_t *groups_taken, const char *expected)
{
	char *token = token_of(claims_of("ada", groups_taken));

	check_known(a, token, expected);
	free(token);
}

static void check_claim(struct access *a, const char *name, json_t *value_taken, const char *part)
{
	json_t *claims = claims_of("ada", json_string("root"));
	char *token;

	if (value_taken)
		json_object_set_new(claims, name, value_taken);
	else
		json_object_del(claims, name);
	token = token_of(claims);
	check_refused(a, token, part);
	free(token);
}

/* What groups give, and each claim that is missing or wrong. */
static void test_claims(void)
{
	char *items[] = { (char *)"ml=operator:red,blue", (char *)"ops=viewer",
			  (char *)"root=admin", (char *)"lead=admin:blue" };
	const struct conf_list grants = { items, ARRAY_SIZE(items) };
	const struct oidc_env oidc = oidc_of(&grants);
	struct access *a = new_access(&(struct access_env){ .oidc = &oidc });
	int64_t now_s = now_real_ns() / NS_PER_S;
	char *token;

	n_fetches = 0;
	check_groups(a, json_string("ml"), "ada viewer:blue,red operator:blue,red admin:");
	check_groups(a, json_pack("[s, s]", "x", "ops"), "ada viewer:* operator: admin:");
	check_groups(a, json_string("root"), "ada viewer:* operator:* admin:*");
	check_groups(a, json_string("roots"), "ada viewer: operator: admin:");
	check_groups(a, json_string("a root"), "ada viewer: operator: admin:");
	check_groups(a, json_pack("[s, s]", "lead", "ml"),
		     "ada viewer:blue,red operator:blue,red admin:blue");
	check_groups(a, json_pack("[s, s]", "ops", "lead"),
		     "ada viewer:* operator:blue admin:blue");
	check_groups(a, json_pack("[s, s, i]", "roo", "roots", 1), "ada viewer: operator: admin:");
	check_groups(a, json_pack("{s:s}", "root", "root"), "ada viewer: operator: admin:");
	CHECK_EQ(n_fetches, 1);
	check_claim(a, "iss", json_string("https://other.example"), "another issuer");
	check_claim(a, "iss", NULL, "another issuer");
	check_claim(a, "aud", json_string("other"), "not for the audience");
	check_claim(a, "aud", json_pack("[s]", "tutt"), "not for the audience");
	check_claim(a, "aud", NULL, "not for the audience");
	check_claim(a, "azp", json_string("other"), "another party");
	check_claim(a, "sub", NULL, "whose it is");
	check_claim(a, "exp", NULL, "when it ends");
	check_claim(a, "exp", json_integer(now_s - 100), "ended");
	check_claim(a, "exp", json_string("9999999999"), "when it ends");
	check_claim(a, "nbf", json_integer(now_s + 100), "begins");
	check_claim(a, "iat", json_integer(now_s + 100), "from now");
	check_claim(a, "name", NULL, "no claim 'name'");
	check_claim(a, "name", json_string("a\nb"), "no name that can be shown");
	token = token_of(claims_of("ada", json_string("root")));
	token[strlen(token) - 5] = token[strlen(token) - 5] == 'A' ? 'B' : 'A';
	check_refused(a, token, "signature");
	free(token);
	check_refused(a, "a-static-one", "no signed one");
	token = token_by("invented", claims_of("ada", json_string("root")));
	check_refused(a, token, "no key 'invented'");
	free(token);
	CHECK_EQ(n_fetches, 1); /* keys were fetched a moment ago */
	end_access(a);
}

/* The digests of tokens that were checked have places by their first digits: another token with the same ones is not known. */
static void check_other_in_place(struct access *a, const char *token)
{
	unsigned char wanted[32], digest[32];
	char other[32];
	struct err e;

	CHECK(EVP_Digest(token, strlen(token), wanted, NULL, EVP_sha256(), NULL) == 1);
	for (int i = 0;; i++) {
		CHECK(i < 1 << 22);
		snprintf(other, sizeof(other), "other-%d", i);
		CHECK(EVP_Digest(other, strlen(other), digest, NULL, EVP_sha256(), NULL) == 1);
		if (!memcmp(digest, wanted, 2))
			break;
	}
	CHECK(!access_check_now(a, other, &e));
}

/* A role needs its own right and those of the roles below it, everywhere or in a namespace. */
static void test_rights(void)
{
	const char *dir = temp_dir();
	char *token_file = xasprintf("%s/token", dir);
	const struct kube_people_env people = { .jobs = &jobs,
						.server = url,
						.token_file = token_file,
						.audience = "people",
						.hold_ns = 3600 * NS_PER_S,
						.refuse_ns = 3600 * NS_PER_S };
	struct access *a = new_access(&(struct access_env){ .kubernetes = &people });
	struct principal *p;
	struct err e;

	own_token = "Bearer agg-1";
	CHECK_OK(file_replace(token_file, 0600, "agg-1\n", 6, &e), e);
	check_known(a, "viewer", "viewer viewer:* operator: admin:");
	own_token =
		"Bearer agg-2"; /* it is read for each request: a projected one changes each hour */
	CHECK_EQ(check_token(a, "half").code, ERR_BUSY);
	CHECK_OK(file_replace(token_file, 0600, "agg-2", 5, &e), e);
	check_known(a, "half", "half viewer: operator: admin:");
	check_known(a, "blind", "blind viewer: operator: admin:");
	check_known(a, "red", "red viewer:red operator:red admin:");
	check_known(a, "odd", "odd viewer: operator: admin:");
	check_known(a, "mixed", "mixed viewer:* operator:blue admin:blue");
	check_known(a, "root", "root viewer:* operator:* admin:*");
	n_reviews = 0;
	check_known(a, "root", "root viewer:* operator:* admin:*"); /* as it was said */
	check_refused(a, "unknown:1", "does not know this token");
	check_refused(a, "unknown:1", "does not know this token");
	CHECK_EQ(n_reviews, 1);
	p = access_check_now(a, "mixed", &e);
	CHECK(p && !strcmp(p->how, "kubernetes"));
	principal_unref(p);
	CHECK(!access_check_now(a, "never-shown", &e));
	check_other_in_place(a, "mixed");
	end_access(a);
	own_token = NULL;
	free(token_file);
	temp_dir_remove(dir);
}

/* A token that says it is of the provider is shown to the provider alone. */
static void test_both(void)
{
	char *items[] = { (char *)"root=admin" };
	const struct conf_list grants = { items, 1 };
	const struct oidc_env oidc = oidc_of(&grants);
	const struct kube_people_env people = { .jobs = &jobs,
						.server = url,
						.audience = "people",
						.hold_ns = 0, /* asked again each time */
						.refuse_ns = 0 };
	struct access *a = new_access(&(struct access_env){ .oidc = &oidc, .kubernetes = &people });
	char *token = token_of(claims_of("ada", json_string("root")));

	n_reviews = 0;
	check_known(a, token, "ada viewer:* operator:* admin:*");
	CHECK_EQ(n_reviews, 0);
	check_known(a, "viewer:1", "viewer viewer:* operator: admin:");
	check_known(a, "viewer:1", "viewer viewer:* operator: admin:");
	CHECK_EQ(n_reviews, 2);
	free(token);
	end_access(a);
}

static void test_settings(void)
{
	static const char *const bad[] = { "ml", "=viewer", "ml=king",
					   "ml=viewer:", "ml=viewer:a b" };
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *items[] = { (char *)bad[i] };
		const struct conf_list grants = { items, 1 };
		const struct oidc_env env = oidc_of(&grants);
		struct access *a;

		CHECK_EQ(access_new(&a, &(struct access_env){ .oidc = &env, .jobs = &jobs }, &e),
			 ERR_INVALID);
		CHECK(strstr(e.msg, "oidc-grant"));
	}
}

int main(void)
{
	const struct http_server_opts opts = { .address = "127.0.0.1:0", .threads = 2 };
	struct http_server *server;
	struct err e;
	int port;

	key = EVP_EC_gen("P-256");
	CHECK(key);
	CHECK_OK(loop_new(&jobs.loop, 4, &e), e);
	CHECK_OK(http_server_new(&server, jobs.loop, &opts, handle, NULL, &port, &e), e);
	url = xasprintf("http://127.0.0.1:%d", port);
	test_bearer();
	test_file();
	test_without_tokens();
	test_claims();
	test_rights();
	test_both();
	test_settings();
	http_server_free(server);
	loop_free(jobs.loop);
	EVP_PKEY_free(key);
	free(url);
	return 0;
}
