/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed tokens of an OpenID provider (JWS in its compact form), and the keys they are signed with (JWKS). The only file that
 * includes libjose's headers is jwt.c. Pure; any thread.
 */
#ifndef AGGREGATOR_ACCESS_JWT_H
#define AGGREGATOR_ACCESS_JWT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

#define JWT_MOST_BYTES 16384 /* of a token */
#define JWT_KEYS_MOST  64 /* of a provider */
#define JWT_KEYS_BYTES ((size_t)256 << 10)
#define JWT_SKEW_S     60 /* that clocks may differ */

/* What a token must say. */
struct jwt_rules {
	const char *issuer; /* its `iss` */
	const char *audience; /* in its `aud` */
	const char *client; /* its `azp`, if it has one */
	int64_t now_s; /* Unix time */
};

/* Whether the text could be a token: three parts of base64url. Says nothing of what is in them. */
bool jwt_has_form(const char *token);

/* Whether the token says that it is of this issuer; nothing of it is checked. */
bool jwt_claims_issuer(const char *token, const char *issuer);

/* Reads a provider's keys; `*keys` is a new reference to the document. ERR_INVALID, ERR_LIMIT. */
MUST_CHECK int jwt_read_keys(json_t **keys, const void *text, size_t len, struct err *e);

/*
 * Checks the signature (RS256 or ES256) by the key that the token names, then what it says. `*claims` is a new reference.
 * ERR_NOT_FOUND: there is no such key, and the provider may have others by now. ERR_DENIED: the sentence says what is wrong.
 */
MUST_CHECK int jwt_verify(json_t **claims, const char *token, const json_t *keys,
			  const struct jwt_rules *rules, struct err *e);

#endif
