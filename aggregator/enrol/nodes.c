/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/enrol/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/access/kube_review.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "proto/names.h"

#define REFUSE_NS     (10 * NS_PER_S) /* so long a refusal is remembered */
#define ACCOUNT_BEGIN "system:serviceaccount:"
#define NODE_EXTRA    "authentication.kubernetes.io/node-name" /* by Kubernetes 1.30 and later */
#define POD_EXTRA     "authentication.kubernetes.io/pod-name"

struct nodes {
	struct nodes_env env;
	struct kube_checks *checks;
};

/* ---- what the cluster says ---- */

/* The only value of an extra; NULL if there is none, or another number of them. */
static const char *only_extra(const json_t *person, const char *key)
{
	const json_t *values = json_object_get(json_object_get(person, "extra"), key);

	return json_array_size(values) == 1 ? json_string_value(json_array_get(values, 0)) : NULL;
}

/* Tokens may also be bound to a node, with no pod on it: who may make one would be any host. */
int nodes_read(const char **node, const json_t *person, const char *account, struct err *e)
{
	const char *user = json_get_text(person, "user");
	const char *name = only_extra(person, NODE_EXTRA), *pod = only_extra(person, POD_EXTRA);

	if (strncmp(user, ACCOUNT_BEGIN, strlen(ACCOUNT_BEGIN)) ||
	    strcmp(user + strlen(ACCOUNT_BEGIN), account))
		return err_set(e, ERR_DENIED,
			       "the token is of '%.100s', not of the service account '%.60s'", user,
			       account);
	if (!name || !pod || !*pod)
		return err_set(e, ERR_DENIED,
			       "the token is of no pod on a node: use a projected one, of "
			       "Kubernetes 1.30 or later");
	if (name_check_host(name, NULL))
		return err_set(e, ERR_DENIED, "the token's node has a name that no host may have");
	*node = name;
	return 0;
}

static int ask(void *arg, const struct kube_api *api, const _Atomic bool *cancelled,
	       const char *token, void **found, struct err *e)
{
	const struct nodes *n = arg;
	const struct kube_review review = { .api = api,
					    .audience = n->env.audience,
					    .cancelled = cancelled };
	const char *node;
	json_t *person = NULL;
	int rc = kube_review_person(&review, token, &person, e);

	if (!rc)
		rc = nodes_read(&node, person, n->env.account, e);
	if (!rc)
		*found = xstrdup(node);
	json_decref(person);
	return rc;
}

int nodes_check(struct nodes *n, const char *token, kube_checks_fn fn, void *arg, struct err *e)
{
	return kube_checks_ask(n->checks, token, fn, arg, e);
}

bool nodes_leave(struct nodes *n, const void *arg)
{
	return kube_checks_leave(n->checks, arg);
}

/* ---- life ---- */

int nodes_new(struct nodes **out, const struct nodes_env *env, struct err *e)
{
	struct nodes *n = xcalloc(1, sizeof(*n));
	const struct kube_checks_env checks = { .server = env->server,
						.token_file = env->token_file,
						.ca_file = env->ca_file,
						.jobs = env->jobs,
						.work = jobs_work,
						.waiting_most = NODES_WAITING_MOST,
						.at_once = NODES_AT_ONCE,
						.refuse_ns = REFUSE_NS,
						.ask = ask,
						.drop = free,
						.arg = n };
	int rc;

	n->env = *env;
	rc = kube_checks_new(&n->checks, &checks, e);
	if (rc)
		nodes_free(n);
	else
		*out = n;
	return rc;
}

void nodes_stop(struct nodes *n)
{
	if (n)
		kube_checks_stop(n->checks);
}

void nodes_free(struct nodes *n)
{
	if (!n)
		return;
	kube_checks_free(n->checks);
	free(n);
}
