/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sign-ins at OpenID providers, one a context: logins/CONTEXT.json in the folder of contexts.json (private_file.h). Its members are
 *
 *	server				whose token it is: it is sent to no other
 *	issuer, client, scope, ca	as `tutti login` was asked; ca "" = the system's authorities
 *	resource			what the access token is for, which is sent; "" = the ID token is sent
 *	token, refresh_token		refresh_token "" = there is none
 *	ends_s				when the token ends, by this machine's clock (Unix time)
 */
#ifndef CLI_LOGIN_H
#define CLI_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "cli/context.h"

/* Where a token belongs to. */
struct login_place {
	char context[CONTEXT_NAME_BYTES]; /* "" = no context is used, and there is no sign-in */
	char server[512]; /* as the context has it */
};

/* `*out` is a new reference, or NULL if there is no sign-in, or for another server. */
MUST_CHECK int login_load(const struct login_place *at, json_t **out, struct err *e);

/* Puts what a provider answered into `login`, and stores it. ERR_PEER: the answer has no token of the kind that is to be sent. */
MUST_CHECK int login_store(const struct login_place *at, json_t *login, const json_t *answer,
			   struct err *e);

/* The token to send, refreshed if it ends soon; NULL if there is no sign-in. The caller frees it with secret_free(). Processes
 * that find it old at the same time refresh it once. ERR_DENIED: it has ended, and cannot be refreshed. */
MUST_CHECK int login_token(const struct login_place *at, char **token, struct err *e);

/* Removes the file; `*login` (may be NULL) gets what it was, as of login_load(). */
MUST_CHECK int login_remove(const char *context, json_t **login, struct err *e);

#endif
