/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/jwt.h"

#include <jose/b64.h>
#include <jose/jws.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_text.h"

#define BASE64URL     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#define RSA_N_LETTERS 342 /* of a modulus of 2048 bits, in base64url */
#define KID_BYTES     256

/* The algorithms, and the only kind of key that each may be checked with: no key serves two. */
static const struct {
	const char *alg, *kty;
} algorithms[] = { { "RS256", "RSA" }, { "ES256", "EC" } };

/* ---- form ---- */

struct parts {
	char *text; /* of the three, with a NUL after each */
	const char *head, *payload, *signature;
};

static int cut(struct parts *p, const char *token, struct err *e)
{
	char *dot, *last;

	*p = (struct parts){ 0 };
	if (!jwt_has_form(token))
		return err_set(e, ERR_DENIED, "this is no signed token");
	p->text = xstrdup(token);
	dot = strchr(p->text, '.');
	last = strchr(dot + 1, '.');
	*dot = *last = '\0';
	p->head = p->text;
	p->payload = dot + 1;
	p->signature = last + 1;
	return 0;
}

bool jwt_has_form(const char *token)
{
	for (int part = 0; part < 3; part++) {
		size_t len = strspn(token, BASE64URL);

		if (!len || len > JWT_MOST_BYTES || token[len] != (part < 2 ? '.' : '\0'))
			return false;
		token += len + 1;
	}
	return true;
}

/* JSON in base64url; members that stand twice are refused. */
static int read_part(json_t **out, const char *text, const char *what, struct err *e)
{
	size_t len = strlen(text), size = jose_b64_dec_buf(NULL, len, NULL, 0);
	char *bytes = size == SIZE_MAX ? NULL : xmalloc(size + 1);
	int rc = 0;

	if (!bytes || jose_b64_dec_buf(text, len, bytes, size) != size ||
	    json_parse(out, bytes, size, NULL))
		rc = err_set(e, ERR_DENIED, "the token's %s is no JSON", what);
	else if (!json_is_object(*out)) {
		json_decref(*out);
		*out = NULL;
		rc = err_set(e, ERR_DENIED, "the token's %s is no JSON object", what);
	}
	free(bytes);
	return rc;
}

bool jwt_claims_issuer(const char *token, const char *issuer)
{
	struct parts p;
	struct err e;
	json_t *claims = NULL;
	bool is_his = !cut(&p, token, &e) && !read_part(&claims, p.payload, "payload", &e) &&
		      !strcmp(json_get_text(claims, "iss"), issuer);

	json_decref(claims);
	free(p.text);
	return is_his;
}

/* ---- keys ---- */

int jwt_read_keys(json_t **keys, const void *text, size_t len, struct err *e)
{
	const json_t *list;
	json_t *doc;
	int rc;

	if (len > JWT_KEYS_BYTES)
		return err_set(e, ERR_LIMIT, "keys of %zu bytes", len);
	rc = json_parse(&doc, text, len, e);
	if (rc)
		return rc;
	list = json_object_get(doc, "keys");
	if (!json_is_array(list))
		rc = err_set(e, ERR_INVALID, "there are no keys in it");
	else if (json_array_size(list) > JWT_KEYS_MOST)
		rc = err_set(e, ERR_LIMIT, "%zu keys: at most %d are read", json_array_size(list),
			     JWT_KEYS_MOST);
	if (rc)
		json_decref(doc);
	else
		*keys = doc;
	return rc;
}

static bool is_absent_or(const json_t *key, const char *member, const char *value)
{
	return !json_object_get(key, member) || !strcmp(json_get_text(key, member), value);
}

/* Whether the key is for this algorithm, and strong enough. */
static bool serves(const json_t *key, const char *alg, const char *kty)
{
	if (strcmp(json_get_text(key, "kty"), kty) != 0 || !is_absent_or(key, "use", "sig") ||
	    !is_absent_or(key, "alg", alg))
		return false;
	if (!strcmp(kty, "EC"))
		return !strcmp(json_get_text(key, "crv"), "P-256");
	return strlen(json_get_text(key, "n")) >= RSA_N_LETTERS;
}

/* The key with the token's name; of a token that names none, the only one that serves. */
static int find_key(const json_t **out, const json_t *keys, const json_t *head, const char *kty,
		    struct err *e)
{
	const json_t *kid = json_object_get(head, "kid");
	const char *alg = json_get_text(head, "alg");
	size_t i, named = 0;
	json_t *key;

	*out = NULL;
	if (kid && (!json_is_string(kid) || strlen(json_string_value(kid)) > KID_BYTES))
		return err_set(e, ERR_DENIED, "the token's kid is no name of a key");
	json_array_foreach(json_object_get(keys, "keys"), i, key)
	{
		if (kid ? strcmp(json_get_text(key, "kid"), json_string_value(kid)) != 0
			: !serves(key, alg, kty))
			continue;
		named++;
		*out = key;
	}
	if (named > 1)
		return err_set(e, ERR_DENIED,
			       kid ? "the provider has two keys with the token's kid"
				   : "the token names no key, and the provider has several");
	if (!named)
		return err_set(e, ERR_NOT_FOUND, "the provider has no key '%.60s'",
			       kid ? json_string_value(kid) : "");
	if (!serves(*out, alg, kty))
		return err_set(e, ERR_DENIED, "the token's key is not for %s", alg);
	return 0;
}

/* ---- the signature ---- */

static int check_head(const json_t *head, const char **kty, struct err *e)
{
	const char *alg = json_get_text(head, "alg");

	*kty = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++)
		if (!strcmp(alg, algorithms[i].alg))
			*kty = algorithms[i].kty;
	if (!*kty)
		return err_set(e, ERR_DENIED,
			       "the token is signed with '%.20s': RS256 and ES256 are accepted",
			       alg);
	if (json_object_get(head, "crit") || json_object_get(head, "b64"))
		return err_set(e, ERR_DENIED, "the token has extensions that must be understood");
	return 0;
}

static int check_signature(const struct parts *p, const json_t *key, struct err *e)
{
	json_t *jws = json_object();
	bool is_good;

	json_put_text(jws, "protected", p->head);
	json_put_text(jws, "payload", p->payload);
	json_put_text(jws, "signature", p->signature);
	is_good = jose_jws_ver(NULL, jws, NULL, key, false);
	json_decref(jws);
	return is_good ? 0 : err_set(e, ERR_DENIED, "the token's signature is not valid");
}

/* ---- claims ---- */

static bool names_audience(const json_t *aud, const char *audience)
{
	const json_t *one;
	size_t i;

	if (json_is_string(aud))
		return !strcmp(json_string_value(aud), audience);
	json_array_foreach(aud, i, one)
	{
		if (json_is_string(one) && !strcmp(json_string_value(one), audience))
			return true;
	}
	return false;
}

/* Seconds since 1970; a provider may write them with a fraction. */
static bool read_instant(const json_t *claims, const char *name, double *out)
{
	const json_t *value = json_object_get(claims, name);

	*out = json_number_value(value);
	return json_is_number(value) && *out >= 0 && *out < 1e12;
}

static int check_times(const json_t *claims, double now_s, struct err *e)
{
	double exp, nbf = 0, iat = 0;

	if (!read_instant(claims, "exp", &exp))
		return err_set(e, ERR_DENIED, "the token does not say when it ends");
	if (exp + JWT_SKEW_S <= now_s)
		return err_set(e, ERR_DENIED, "the token ended %.0f s ago", now_s - exp);
	if (json_object_get(claims, "nbf") && !read_instant(claims, "nbf", &nbf))
		return err_set(e, ERR_DENIED, "the token's nbf is no instant");
	if (nbf > now_s + JWT_SKEW_S)
		return err_set(e, ERR_DENIED, "the token begins in %.0f s", nbf - now_s);
	if (json_object_get(claims, "iat") && !read_instant(claims, "iat", &iat))
		return err_set(e, ERR_DENIED, "the token's iat is no instant");
	if (iat > now_s + JWT_SKEW_S)
		return err_set(e, ERR_DENIED, "the token was made %.0f s from now", iat - now_s);
	return 0;
}

static int check_claims(const json_t *claims, const struct jwt_rules *rules, struct err *e)
{
	const json_t *azp = json_object_get(claims, "azp");

	if (strcmp(json_get_text(claims, "iss"), rules->issuer) != 0)
		return err_set(e, ERR_DENIED, "the token is of another issuer: %.100s",
			       json_get_text(claims, "iss"));
	if (!names_audience(json_object_get(claims, "aud"), rules->audience))
		return err_set(e, ERR_DENIED, "the token is not for the audience '%.100s'",
			       rules->audience);
	if (azp && (!json_is_string(azp) || strcmp(json_string_value(azp), rules->client) != 0))
		return err_set(e, ERR_DENIED, "the token was given to another party (azp)");
	if (!*json_get_text(claims, "sub"))
		return err_set(e, ERR_DENIED, "the token does not say whose it is (sub)");
	return check_times(claims, (double)rules->now_s, e);
}

int jwt_verify(json_t **claims, const char *token, const json_t *keys,
	       const struct jwt_rules *rules, struct err *e)
{
	json_t *head = NULL, *said = NULL;
	const json_t *key;
	const char *kty;
	struct parts p;
	int rc = cut(&p, token, e);

	*claims = NULL;
	if (!rc)
		rc = read_part(&head, p.head, "header", e);
	if (!rc)
		rc = check_head(head, &kty, e);
	if (!rc)
		rc = find_key(&key, keys, head, kty, e);
	if (!rc)
		rc = check_signature(&p, key, e);
	if (!rc)
		rc = read_part(&said, p.payload, "payload", e);
	if (!rc)
		rc = check_claims(said, rules, e);
	if (!rc)
		*claims = json_incref(said);
	json_decref(head);
	json_decref(said);
	free(p.text);
	return rc;
}
