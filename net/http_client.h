/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking HTTP client on libcurl, for the command line: one request, one answer. No curl header is
 * included outside net/http_client.c.
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
	const char *ca_file; /* whom to believe for https; NULL = the system's */
	const char *token; /* bearer token, or NULL */
	const char *range; /* of the body: "0-99", "100-", "-5"; NULL = all of it */
	const void *body; /* JSON, or NULL */
	size_t body_len;
	int64_t timeout_ns; /* of the whole call; 0 = as long as it takes, but for
					 * ERR_TIMEOUT once the server is silent for 45 s */

	/* Where the body of a 2xx answer goes, piece by piece; NULL = collected in `answer`.
	 * Return 0 to go on, or a negative code to stop the transfer. */
	int (*piece)(void *arg, const void *data, size_t len);
	void *arg;
};

/*
 * 0 when an answer came, whatever its status; `*status` is the HTTP one. Bodies of other than 2xx
 * always land in `answer` (initialized by the caller, who releases it). ERR_CLOSED when nobody
 * listens, ERR_TIMEOUT, ERR_PEER, ERR_LIMIT for an answer of more than 64 MiB that nobody takes
 * piece by piece; the message names the URL and what to check. Any thread.
 */
MUST_CHECK int http_call(const struct http_call *call, int *status, struct buf *answer,
			 struct err *e);

/*
 * Server-sent events of a GET: fn for each complete event; it returns 0 to go on, 1 to end well, a
 * negative code to end with that. An event without a name is called "message". ERR_CLOSED if the
 * server ends the stream first, ERR_TIMEOUT if it is silent for 45 s (ours send a comment every 15).
 * With a `*status` other than 2xx it returns 0 and there was no event. `call` needs url, ca_file,
 * token and timeout_ns only.
 */
typedef int (*http_event_fn)(void *arg, const char *event, const char *data);
MUST_CHECK int http_events(const struct http_call *call, int *status, http_event_fn fn, void *arg,
			   struct err *e);

#endif
