/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking HTTP client on libcurl, for the command line: one request, one answer. Only
 * net/http_client.c includes curl's headers.
 */
#ifndef NET_HTTP_CLIENT_H
#define NET_HTTP_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct http_call {
	const char *method; /* "GET", "HEAD", "POST", "DELETE" */
	const char *url;
	const char *ca_file; /* certificate authorities for https; NULL = the system's */
	const char *cert_file,
		*key_file; /* the caller's own certificate for https, PEM; NULL = none */
	const char *token; /* bearer token, or NULL */
	const char *range; /* of the body: "0-99", "100-", "-5"; NULL = all of it */
	const void *body; /* JSON, or NULL */
	size_t body_len;
	int64_t timeout_ns; /* of the whole call; 0 = any time, but ERR_TIMEOUT once the server is
			     * silent for 45 s */

	/* Receives the body of a 2xx answer piece by piece; NULL = it is collected in `answer`.
	 * Returns 0 to continue, or a negative code to stop the transfer. */
	int (*piece)(void *arg, const void *data, size_t len);
	void *arg;

	/* Gets the absolute URL that an answer with 3xx names, else NULL; the caller wipes and frees it with free(). NULL: it is not
	 * wanted. It is not followed: token and certificate are for this server alone. */
	char **location;

	/* Called about once a second while the call lasts, with `arg`; a negative code ends the call with
	 * that error. For events, and calls that may take any time; NULL = none. */
	int (*waiting)(void *arg, struct err *e);
};

/*
 * 0 when an answer came, whatever its status; `*status` is the HTTP status. The body of an answer
 * other than 2xx is always put into `answer` (initialized and released by the caller). ERR_CLOSED when
 * no server listens or the connection breaks, ERR_TIMEOUT, ERR_PEER, ERR_LIMIT for an answer of more than 64 MiB without
 * `piece`, ERR_INVALID for a certificate without its key or one that cannot be used; the message names
 * the URL or the file and what to check. Any thread.
 */
MUST_CHECK int http_call(const struct http_call *call, int *status, struct buf *answer,
			 struct err *e);

/*
 * Server-sent events of a GET: calls fn for each complete event; fn returns 0 to continue, 1 to end
 * with success, a negative code to end with that error. An event without a name is called "message".
 * ERR_CLOSED if the server ends the stream first, ERR_TIMEOUT if it is silent for 45 s (an aggregator
 * sends a comment every 15 s). With a `*status` other than 2xx it returns 0, there was no event, and
 * `answer` has the body.
 * `call` needs url, the certificates, token and timeout_ns only; `waiting` gets call->arg.
 */
typedef int (*http_event_fn)(void *arg, const char *event, const char *data);
MUST_CHECK int http_events(const struct http_call *call, int *status, struct buf *answer,
			   http_event_fn fn, void *arg, struct err *e);

#endif
