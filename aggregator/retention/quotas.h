/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas: how many sessions, and how many bytes of them, the store may hold, all together and of single runs. What would
 * exceed one is refused before any host takes part. The use is read from the index after the start, and then kept by
 * what is committed and removed; a look every few minutes makes good what another program has changed. Loop thread.
 */
#ifndef AGGREGATOR_RETENTION_QUOTAS_H
#define AGGREGATOR_RETENTION_QUOTAS_H

#include <stdint.h>

#include <jansson.h>

#include "base/conf.h"
#include "base/err.h"

struct capture;
struct captures;
struct jobs;
struct quotas;
struct session_store;

struct quotas_conf {
	uint64_t bytes, sessions; /* of all; 0 = any number */
	const struct conf_list
		*runs; /* "RUN=BYTES,SESSIONS", as "nightly=200G,50"; 0 = any number */
};

/* ERR_INVALID names the setting. */
MUST_CHECK int quotas_new(struct quotas **out, const struct quotas_conf *conf, struct err *e);
void quotas_free(struct quotas *q); /* stopped, and all jobs are done; NULL is fine */

struct quotas_env {
	struct jobs *jobs;
	struct session_store *store;
	struct captures *captures;
	int64_t period_ns; /* between looks */
};

/* Does nothing without a quota. */
void quotas_start(struct quotas *q, const struct quotas_env *env);
void quotas_stop(struct quotas *q);

/*
 * Whether a further session of this run may begin; `bytes` are those that it is known to need, 0 = not known. ERR_FULL
 * says which quota it would exceed, ERR_BUSY that the use is not known yet. Captures under way count as sessions.
 */
MUST_CHECK int quotas_check(const struct quotas *q, const char *run, uint64_t bytes, struct err *e);

/* A capture has begun; what comes of it is noticed without this. */
void quotas_note(struct quotas *q, const struct capture *c);

/* A session that was brought, or removed. */
void quotas_add(struct quotas *q, const char *session, const char *run, uint64_t bytes);
void quotas_remove(struct quotas *q, const char *session);

/* Looks soon: a session was committed or removed, and it is not known which of the two. */
void quotas_look(struct quotas *q);

/* What is set and used, as in docs/schema/quota.schema.json, a new array; empty without a quota. */
json_t *quotas_json(const struct quotas *q);

#endif
