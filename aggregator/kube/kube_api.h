/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the API of a Kubernetes cluster, with the aggregator's own token. They block: for workers, any number of
 * them at once. The struct does not change between open and close.
 */
#ifndef AGGREGATOR_KUBE_KUBE_API_H
#define AGGREGATOR_KUBE_KUBE_API_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

struct http_pool;

#define KUBE_TOKEN_BYTES 16384

/* Where the API is, and the account that asks. */
struct kube_api {
	char *url; /* "https://10.0.0.1:443"; NULL = there is none */
	char *token_file; /* read before each request: the kubelet renews it; NULL = no token */
	struct http_pool *http;
};

/*
 * `server`: "https://...", http on loopback, or "in-cluster"; the files (may be NULL) are for a server that is given by its
 * URL. ERR_INVALID for a server that cannot be one, ERR_NOT_FOUND for "in-cluster" outside of a cluster. Asks nothing yet.
 */
MUST_CHECK int kube_api_open(struct kube_api *api, const char *server, const char *token_file,
			     const char *ca_file, struct err *e);
void kube_api_close(struct kube_api *api); /* no request is under way; zeroed is fine */

struct kube_call {
	const char *path; /* with its query: "/api/v1/pods?limit=250" */
	const char *accept; /* NULL = "application/json" */
	const json_t *body; /* posted as JSON; NULL = a GET */
	size_t answer_max; /* bytes; ERR_LIMIT beyond */
	int64_t patience_ns; /* for the whole answer */
	int (*piece)(void *arg, const void *data, size_t len,
		     struct err *e); /* as of http_request */
	void *arg;
	const _Atomic bool *cancelled;
};

/* Errors as of http_pool_request(), and of the token's file. `answer` is the body, whatever `*status` is. */
MUST_CHECK int kube_api_call(const struct kube_api *api, const struct kube_call *call, int *status,
			     struct buf *answer, struct err *e);

#endif
