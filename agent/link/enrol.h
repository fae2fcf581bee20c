/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's certificate: one file in the spool with the certificate and its key, which never leaves the host. The
 * aggregator gives it for a token, and a newer one for it. New connections use what the file has. Of these only the
 * struct enrol_env is for others than link/.
 * Loop thread.
 */
#ifndef AGENT_LINK_ENROL_H
#define AGENT_LINK_ENROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct enrol;
struct loop;
struct rpc;
struct rpc_tls;

struct enrol_env {
	struct loop *loop;
	struct rpc *rpc;
	const char *host;
	const char *folder; /* where the certificate is kept */
	const char *token_file; /* read at each request: the kubelet renews its tokens */
	const struct rpc_tls
		*tls; /* the authorities of the aggregator's certificate, and its name */
};

/* Takes up the certificate that an earlier agent left, if it is of this host and still valid. */
MUST_CHECK int enrol_new(struct enrol **out, const struct enrol_env *env, struct err *e);
void enrol_free(struct enrol *en); /* turns the loop until a request has ended; NULL is fine */

/* Those of env, with the certificate. Borrowed. */
const struct rpc_tls *enrol_tls(const struct enrol *en);

bool enrol_has_certificate(const struct enrol *en);

/* Asks for a newer one at about half of the life of the present one, after failures again and again in growing pauses, and
 * calls `renewed` whenever one came; until enrol_stop_renewing(). */
void enrol_renew(struct enrol *en, const char *aggregator, void (*renewed)(void *arg), void *arg);
void enrol_stop_renewing(struct enrol *en);

/* When new connections must have replaced those with an earlier certificate, at the latest; CLOCK_MONOTONIC. */
int64_t enrol_last_mono_ns(const struct enrol *en);

/* The aggregator does not accept the present one. */
void enrol_forget(struct enrol *en);

/* Asks an aggregator for a certificate: by the present one, else, or if that is refused, by the token. Whatever comes of it,
 * the present one stays until there is a new one in the file. Calls fn once, which may be before it returns: `why` is NULL
 * if there is a new one. Where a request is under way, its fn is replaced. */
typedef void (*enrol_fn)(void *arg, const struct err *why);
void enrol_ask(struct enrol *en, const char *aggregator, enrol_fn fn, void *arg);

#endif
