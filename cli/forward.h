/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port of this machine that leads to an aggregator in a Kubernetes cluster: `kubectl port-forward` as a child, with the
 * user's own kubeconfig and rights.
 */
#ifndef CLI_FORWARD_H
#define CLI_FORWARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct forward {
	pid_t pid; /* 0 = none */
	int out; /* what it says; stays open, as it ends where nothing reads */
	char url[64]; /* "http://127.0.0.1:PORT" */
};

/* Whether a server's URL has this form: k8s://NAMESPACE/NAME, where NAME is the StatefulSet's (its pod 0 is meant), or
 * k8s://NAMESPACE/pod/NAME. */
bool forward_is_wanted(const char *server);

/* Returns when the port takes connections. ERR_NOT_FOUND without kubectl, ERR_PEER with its words. The child ends with this
 * process, however that ends. */
MUST_CHECK int forward_begin(struct forward *f, const char *server, struct err *e);
void forward_end(struct forward *f); /* a zeroed one is fine */

#endif
