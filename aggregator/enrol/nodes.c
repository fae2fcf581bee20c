/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/enrol/nodes.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "aggregator/access/kube_review.h"
#include "aggregator/kube/kube_api.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "json/json_text.h"
#include "proto/names.h"

#define ACCOUNT_BEGIN "system:serviceaccount:"
#define NODE_EXTRA    "authentication.kubernetes.io/node-name" /* by Kubernetes 1.30 and later */

struct check {
	struct nodes *nodes;
	char *token;
	nodes_fn fn;
	void *arg;
	STAILQ_ENTRY(check) next;
	char *node; /* the worker's until it is done, as the next two */
	int rc;
	struct err e;
};

struct nodes {
	struct nodes_env env;
	struct kube_api api;
	_Atomic bool cancelled;
	STAILQ_HEAD(, check) waiting;
	size_t n_waiting, n_running;
};

/* ---- what the cluster says ---- */

int nodes_read(const char **node, const json_t *person, const char *account, struct err *e)
{
	const char *user = json_get_text(person, "user");
	const json_t *names = json_object_get(json_object_get(person, "extra"), NODE_EXTRA);
	const char *name = json_string_value(json_array_get(names, 0));

	if (strncmp(user, ACCOUNT_BEGIN, strlen(ACCOUNT_BEGIN)) ||
	    strcmp(user + strlen(ACCOUNT_BEGIN), account))
		return err_set(e, ERR_DENIED,
			       "the token is of '%.100s', not of the service account '%.60s'", user,
			       account);
	if (!name || json_array_size(names) != 1)
		return err_set(e, ERR_DENIED,
			       "the token is of no pod on a node: use a projected one, of "
			       "Kubernetes 1.30 or later");
	if (name_check_host(name, NULL))
		return err_set(e, ERR_DENIED, "the token's node has a name that no host may have");
	*node = name;
	return 0;
}

static void run_check(void *arg)
{
	struct check *c = arg;
	const struct nodes *n = c->nodes;
	const struct kube_review review = { .api = &n->api,
					    .audience = n->env.audience,
					    .cancelled = &n->cancelled };
	const char *node;
	json_t *person = NULL;

	c->rc = kube_review_person(&review, c->token, &person, &c->e);
	if (!c->rc)
		c->rc = nodes_read(&node, person, n->env.account, &c->e);
	if (!c->rc)
		c->node = xstrdup(node);
	json_decref(person);
}

/* ---- the queue ---- */

static void begin_checks(struct nodes *n);

static void done_check(void *arg)
{
	struct check *c = arg;
	struct nodes *n = c->nodes;

	n->n_running--;
	begin_checks(n);
	if (c->rc && c->rc != ERR_DENIED) {
		c->e.code = ERR_BUSY;
		log_warn("AGG-ENROL", "state=not-checked reason=\"%s\"", c->e.msg);
	}
	c->fn(c->arg, c->node, c->rc ? &c->e : NULL);
	secret_free(c->token);
	free(c->node);
	free(c);
}

static void begin_checks(struct nodes *n)
{
	struct check *c;

	while (n->n_running < NODES_AT_ONCE && (c = STAILQ_FIRST(&n->waiting))) {
		STAILQ_REMOVE_HEAD(&n->waiting, next);
		n->n_waiting--;
		n->n_running++;
		jobs_work(n->env.jobs, run_check, done_check, c);
	}
}

int nodes_check(struct nodes *n, const char *token, nodes_fn fn, void *arg, struct err *e)
{
	struct check *c;

	if (n->n_waiting == NODES_WAITING_MOST)
		return err_set(e, ERR_BUSY, "%d agents wait for the Kubernetes API: try again",
			       NODES_WAITING_MOST);
	c = xcalloc(1, sizeof(*c));
	*c = (struct check){ .nodes = n, .token = xstrdup(token), .fn = fn, .arg = arg };
	STAILQ_INSERT_TAIL(&n->waiting, c, next);
	n->n_waiting++;
	begin_checks(n);
	return 0;
}

/* ---- life ---- */

int nodes_new(struct nodes **out, const struct nodes_env *env, struct err *e)
{
	struct nodes *n = xcalloc(1, sizeof(*n));
	int rc;

	n->env = *env;
	STAILQ_INIT(&n->waiting);
	rc = kube_api_open(&n->api, env->server, env->token_file, env->ca_file, e);
	if (rc)
		nodes_free(n);
	else
		*out = n;
	return rc;
}

void nodes_stop(struct nodes *n)
{
	if (n)
		atomic_store(&n->cancelled, true);
}

void nodes_free(struct nodes *n)
{
	if (!n)
		return;
	kube_api_close(&n->api);
	free(n);
}
