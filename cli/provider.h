/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenID provider as a person's program uses it: OAuth's device flow (RFC 8628), refreshing, revoking (RFC 7009). Nothing
 * that it answers is trusted: each answer has at most PROVIDER_ANSWER_BYTES, and each URL must be https, or on loopback. Blocking.
 */
#ifndef CLI_PROVIDER_H
#define CLI_PROVIDER_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

#define PROVIDER_ANSWER_BYTES ((size_t)256 << 10)

struct http_pool;

struct provider {
	struct http_pool *http;
	const char *client; /* borrowed: the id of this program at the provider */
	const char *resource; /* borrowed: what access tokens are for (RFC 8707); "" = none */
	char *device_url, *token_url;
	char *revoke_url; /* NULL = it has none */
};

/* What a person has to do: open `uri`, and type `user_code`. Texts are clean. */
struct device_code {
	char *code, *user_code, *uri;
	char *whole_uri; /* with the code in it; NULL = there is none */
	int64_t ends_mono_ns, interval_ns;
};

/* Reads what the provider says of itself. `client` and `resource` are borrowed; `ca_file` NULL = the system's. The caller closes it,
 * also after an error. */
MUST_CHECK int provider_open(struct provider *p, const char *issuer, const char *client,
			     const char *resource, const char *ca_file, struct err *e);
void provider_close(struct provider *p);

/* Asks for a code; the caller frees it, also after an error. */
MUST_CHECK int provider_begin(const struct provider *p, const char *scope, struct device_code *out,
			      struct err *e);
void device_code_free(struct device_code *c);

/* Asks again and again until the person has answered; `*answer` is a new reference, with "access_token" at least. ERR_DENIED: the
 * person, or the provider, refuses. ERR_TIMEOUT: the code has ended. */
MUST_CHECK int provider_await(const struct provider *p, struct device_code *c, json_t **answer,
			      struct err *e);

/* The same answer for a refresh token. ERR_DENIED: it does not hold any more. */
MUST_CHECK int provider_refresh(const struct provider *p, const char *refresh_token,
				json_t **answer, struct err *e);

/* Tells the provider that a refresh token is used no more. 0 where it takes no such news. */
MUST_CHECK int provider_revoke(const struct provider *p, const char *refresh_token, struct err *e);

#endif
