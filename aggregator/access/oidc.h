/* SPDX-License-Identifier: Apache-2.0 */
/*
 * People by an OpenID provider: their tokens are checked with its keys, which are fetched when a token names one that is not
 * known, or the known ones are older than hold_ns, and at most once in fetch_ns. What a person may do follows from the groups in the token. Loop thread.
 */
#ifndef AGGREGATOR_ACCESS_OIDC_H
#define AGGREGATOR_ACCESS_OIDC_H

#include <stdbool.h>

#include "aggregator/access/principal.h"
#include "base/err.h"

struct conf_list;
struct jobs;
struct oidc;

#define OIDC_GRANTS_MOST 256
#define OIDC_CHECKS_MOST 256 /* tokens that wait for a check at the same time */

struct oidc_env {
	struct jobs *jobs;
	const char *issuer; /* URL; https, or http on loopback */
	const char *audience; /* of tokens */
	const char *client; /* of people's programs; NULL or "" = the audience */
	const char *ca_file; /* authorities of the provider's certificate; NULL = the system's */
	const char *name_claim, *role_claim; /* where a token has the person's name, and groups */
	int64_t fetch_ns; /* the least time between two fetches of the keys */
	int64_t hold_ns; /* older ones are fetched again; where that fails, they hold until it succeeds */
	const struct conf_list *grants; /* GROUP=ROLE[:NAMESPACE,...] */
};

/* ERR_INVALID names the setting. Fetches nothing yet. */
MUST_CHECK int oidc_new(struct oidc **out, const struct oidc_env *env, struct err *e);
void oidc_stop(struct oidc *o); /* requests to the provider end within a second; NULL is fine */
void oidc_free(struct oidc *o); /* stopped, and all jobs are done; NULL is fine */

/* `p` is NULL if the token is not valid: `why` says so, with ERR_DENIED; any other code: it could not be checked now. */
typedef void (*oidc_fn)(void *arg, struct principal *p, const struct err *why);

/* Calls fn once, which may be before it returns. ERR_DENIED or ERR_BUSY, and fn is not called, for what is no token, and for too many at a time. */
MUST_CHECK int oidc_check(struct oidc *o, const char *token, oidc_fn fn, void *arg, struct err *e);

/* Whether the token says that this provider gave it; nothing of it is checked. */
bool oidc_is_issuer(const struct oidc *o, const char *token);

#endif
