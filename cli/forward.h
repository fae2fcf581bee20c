/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of this machine that lead to aggregators in a Kubernetes cluster: `kubectl port-forward` for each, with the user's own
 * kubeconfig and rights. kubectl ends with the pod: a child of this process, the keeper, then starts it again with the same
 * port, until the pod that has the name next takes connections.
 */
#ifndef CLI_FORWARD_H
#define CLI_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define FORWARDS_MOST 4

struct forward {
	pid_t keepers[FORWARDS_MOST];
	size_t n;
	char url[FORWARDS_MOST * 32]; /* "http://127.0.0.1:PORT" of each, with commas between */
};

/* Whether a server's URL has this form: k8s://NAMESPACE/NAME, where NAME is the StatefulSet's (its pod 0 is meant), or
 * k8s://NAMESPACE/pod/NAME; or several of them with commas, for aggregators that share a store. */
bool forward_is_wanted(const char *server);

/* Returns when the ports take connections. Of several URLs, those that cannot be forwarded are left out, as long as there is
 * one. ERR_PEER with kubectl's words, or why there is none. All children end with this process, however that ends. */
MUST_CHECK int forward_begin(struct forward *f, const char *server, struct err *e);
void forward_end(struct forward *f); /* a zeroed one is fine */

#endif
