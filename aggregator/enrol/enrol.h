/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enrolment of agents: an authority of the aggregator's own gives each host a certificate of some hours, for a token, and
 * for the certificate before it (docs/security.md). Who shows a certificate is verified here, with every call: it is of
 * this authority, valid now, of the present epoch, and its host is not revoked. Every certificate and every refusal is in
 * the audit log and in a line AGG-ENROL. Loop thread.
 *
 * tutti.v1.Enrol/Enrol is open to callers without a certificate; its argument is the struct enrol.
 */
#ifndef AGGREGATOR_ENROL_ENROL_H
#define AGGREGATOR_ENROL_ENROL_H

#include <stdint.h>

#include "base/err.h"

struct audit;
struct conf_list;
struct enrol;
struct jobs;
struct nodes_env;
struct rpc_events;
struct rpc_verifier;
struct store;

#define ENROL_PATH	  "/tutti.v1.Enrol/Enrol"
#define ENROL_TOKEN_BYTES 76 /* of a join token, with its NUL */
extern const struct rpc_events enrol_events;

struct enrol_env {
	struct jobs *jobs;
	struct audit *audit; /* NULL = none */
	const char *folder; /* of the authority; made if it is missing */
	struct store *
		store; /* has what the authority remembers, for all replicas; NULL = the folder has it */
	const char *cert_file,
		*key_file; /* of an authority that is given; NULL = it is in the folder */
	int64_t life_ns; /* of a certificate */
	const struct nodes_env
		*cluster; /* whose pods' tokens are good, too; NULL = none; for the call */
	/* names by which agents reach the aggregator, for a certificate of its own; NULL = it has one */
	const struct conf_list *server_names;
};

/* Blocks. */
MUST_CHECK int enrol_new(struct enrol **out, const struct enrol_env *env, struct err *e);
void enrol_stop(struct enrol *en); /* no token is checked any more; NULL is fine */
void enrol_free(
	struct enrol *en); /* stopped; all calls are closed, all jobs are done; NULL is fine */

/* Borrowed. */
const struct rpc_verifier *enrol_verifier(const struct enrol *en);
const char *enrol_ca_file(const struct enrol *en); /* the authority's certificate */
const char *enrol_server_cert_file(const struct enrol *en); /* without server_names NULL */
const char *enrol_server_key_file(const struct enrol *en);

/* ---- what an administrator does ---- */

/* Called once, later: `why` is NULL once it is durable. It holds in either case. */
typedef void (*enrol_fn)(void *arg, const struct err *why);

struct enrol_token {
	const char *host; /* glob of the hosts that it is for; "" = all */
	int64_t life_ns;
	int64_t uses; /* 0 = any number */
};

/* Writes the token, which is nowhere else. ERR_INVALID, ERR_LIMIT: then fn is not called. */
MUST_CHECK int enrol_add_token(struct enrol *en, const struct enrol_token *rules,
			       char out[ENROL_TOKEN_BYTES], enrol_fn fn, void *arg, struct err *e);

/* The host's certificates are refused from now on, and it gets no other until it is lifted. What it has open is for the caller to
 * close. Errors as above. */
MUST_CHECK int enrol_revoke(struct enrol *en, const char *host, enrol_fn fn, void *arg,
			    struct err *e);
MUST_CHECK int enrol_lift(struct enrol *en, const char *host, enrol_fn fn, void *arg,
			  struct err *e);

/* All certificates of now are refused from now on. Returns the new epoch. */
uint64_t enrol_next_epoch(struct enrol *en, enrol_fn fn, void *arg);

#endif
