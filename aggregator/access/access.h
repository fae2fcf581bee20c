/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a caller is: finds the principal of a bearer token, of a client certificate, or of a caller who shows neither.
 * What a principal may do is access_decide()'s (verbs.h). Loop thread.
 */
#ifndef AGGREGATOR_ACCESS_ACCESS_H
#define AGGREGATOR_ACCESS_ACCESS_H

#include <stdbool.h>

#include "aggregator/access/principal.h"
#include "base/err.h"

struct access;
struct conf_list;
struct jobs;
struct kube_people_env;
struct oidc_env;

struct access_env {
	struct jobs *jobs;
	const char *admin_token; /* of --token-file; NULL = none */
	const char *tokens_file; /* of --tokens; NULL or "" = none */
	const struct oidc_env *oidc; /* people of an OpenID provider; NULL = none; for the call */
	const struct kube_people_env
		*kubernetes; /* people of a cluster; NULL = none; for the call */
	const struct conf_list *certificates; /* common names that are admins; NULL = none */
	enum role anonymous; /* of callers who show nothing, everywhere */
};

/* Errors name the setting or the file. */
MUST_CHECK int access_new(struct access **out, const struct access_env *env, struct err *e);
void access_stop(struct access *a); /* no token is checked any more; NULL is fine */
void access_free(struct access *a); /* stopped, and all jobs are done; NULL is fine */

/* Whether any token, or certificate, could be valid. */
bool access_has_tokens(const struct access *a);
bool access_has_certificates(const struct access *a);

/* `p` is NULL if the token is not valid: `why` says so, with ERR_DENIED; ERR_BUSY: it could not be checked now. */
typedef void (*access_fn)(void *arg, struct principal *p, const struct err *why);

/* Calls fn once, which may be before it returns. The token is copied. */
void access_check(struct access *a, const char *token, access_fn fn, void *arg);

/* The same for callers who cannot wait: a token that was not checked lately is ERR_BUSY. A reference, or NULL. */
struct principal *access_check_now(struct access *a, const char *token, struct err *e);

/* The token of the value of an Authorization header; NULL if it has no bearer token. Borrowed. */
const char *access_bearer(const char *authorization);

/* References. */
struct principal *access_anonymous(const struct access *a);
struct principal *access_of_certificate(const struct access *a,
					const char *common_name); /* or NULL */

#endif
