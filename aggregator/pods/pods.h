/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of a Kubernetes cluster, as its API lists and watches them, and the hosts that they run on: the host of a pod
 * is the one whose label `node`, or else whose name, is the pod's node. Off unless a server is given. Loop thread.
 */
#ifndef AGGREGATOR_PODS_PODS_H
#define AGGREGATOR_PODS_PODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregator/fleet/spaces.h"
#include "aggregator/pods/pod.h"
#include "base/err.h"
#include "json/json_text.h"

struct host;
struct jobs;
struct pods;
struct registry;

struct pods_env {
	struct jobs *jobs;
	struct registry *registry;
	const char *server; /* "https://...", "in-cluster", or NULL or "": no discovery */
	const char *token_file, *ca_file; /* for a server that is given by its URL; may be NULL */
	int64_t retry_ns; /* the first pause after a failure, with a server; doubles, up to 64 times */
};

/* Begins to list. ERR_INVALID for a server that cannot be one, ERR_NOT_FOUND for "in-cluster" outside of a cluster. */
MUST_CHECK int pods_new(struct pods **out, const struct pods_env *env, struct err *e);
void pods_stop(struct pods *p); /* the worker ends within a second; NULL is fine */
void pods_free(struct pods *p); /* stopped, and all jobs are done; NULL is fine */

/* Calls fn when a pod that asks for a snapshot has failed, or a container of it has begun again, and an agent is on its
 * node: with the agent's host, and what happened. One function; before the loop turns. */
void pods_on_failure(struct pods *p,
		     void (*fn)(void *arg, const struct pod *pod, const char *host,
				const char *what),
		     void *arg);

/*
 * events.c: a Kubernetes Event on the pod, "CaptureFailed", which says why it is not in a session. One pod gets none for the same
 * reason within 10 minutes; beyond 256 that wait, and after one that the server refuses, others are left out, and counted in the log.
 * Nothing without a server.
 */
void pods_note_failure(struct pods *p, struct pod *pod, const char *reason, const char *session,
		       const char *detail);

/* The pod of this uid, borrowed; NULL if it is not, or not any more, in the cluster. */
struct pod *pods_find(const struct pods *p, const char *uid);

/* Whether the table has what the cluster has, as far as is known. */
bool pods_are_known(const struct pods *p);

/* A pod that a selector names, with its host. */
struct pods_match {
	struct pod *pod; /* a reference */
	struct host *host; /* NULL: no agent is on its node */
};

struct pods_selection {
	struct host **hosts; /* sorted by name */
	size_t n_hosts;
	bool is_about_pods; /* a term asks for a pod, a namespace, a job or a rank */
	struct pods_match *pods; /* sorted by namespace and name; none unless is_about_pods */
	size_t n_pods;
	/* the namespaces of the pods or, where no pod is asked for, of the hosts; empty if a host has none */
	struct spaces spaces;
};

/*
 * select.c: resolves a selector (docs/selectors.md): the hosts that match, or that have a pod that matches, and, if it
 * asks for pods, those pods. `within` (NULL = all): as if there were no other namespaces, and no hosts outside of them.
 * The caller releases *out after success. Errors as of registry_select().
 */
MUST_CHECK int pods_select(const struct pods *p, struct registry *r, const char *selector,
			   const struct spaces *within, struct pods_selection *out, struct err *e);
void pods_selection_release(struct pods_selection *s);

/* documents.c: docs/schema/pods.schema.json of the pods that match a selector, and pod-jobs.schema.json of all jobs. fn
 * gets the text once, later, with nothing of other namespaces than those of `within` (NULL = all). An error is returned and fn
 * is not called. */
MUST_CHECK int pods_make_text(struct pods *p, const char *selector, const struct spaces *within,
			      json_text_fn fn, void *arg, struct err *e);
void pods_make_jobs_text(struct pods *p, const struct spaces *within, json_text_fn fn, void *arg);

/* A pod in a document: docs/schema/pod.schema.json without the members about its host; a new reference. */
json_t *pod_json(const struct pod *p);

#endif
