/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents by the token of their pod's service account: the cluster says of a token, which must be for an audience of our own,
 * whose account it is and on which node its pod runs (TokenReview). That is the host's name. Of this others use
 * the struct nodes_env only. Loop thread.
 */
#ifndef AGGREGATOR_ENROL_NODES_H
#define AGGREGATOR_ENROL_NODES_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "aggregator/kube/kube_checks.h"
#include "base/err.h"

struct jobs;
struct nodes;

#define NODES_WAITING_MOST 4096 /* agents: a cluster may start at once */
#define NODES_AT_ONCE	   4 /* that workers ask about; the others wait */

struct nodes_env {
	struct jobs *jobs;
	const char *server, *token_file, *ca_file; /* as of kube_api_open() */
	const char *audience; /* that tokens must be for */
	const char *account; /* NAMESPACE:NAME, the agents' service account */
};

/* Errors as of kube_api_open(). Asks nothing yet. */
MUST_CHECK int nodes_new(struct nodes **out, const struct nodes_env *env, struct err *e);
void nodes_stop(struct nodes *n); /* requests end within a second; NULL is fine */
void nodes_free(struct nodes *n); /* stopped, and all jobs are done; NULL is fine */

/* As kube_checks_ask() and kube_checks_leave(), which see; what is found is the node's name. */
MUST_CHECK int nodes_check(struct nodes *n, const char *token, kube_checks_fn fn, void *arg,
			   struct err *e);
bool nodes_leave(struct nodes *n, const void *arg);

/* The node in what kube_review_person() gives, borrowed from it. ERR_DENIED: not of that account, or of no pod. */
MUST_CHECK int nodes_read(const char **node, const json_t *person, const char *account,
			  struct err *e);

#endif
