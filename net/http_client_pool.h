/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking HTTP requests whose connections are kept and reused, for stores: bodies from memory or files,
 * answers piece by piece, a deadline. Any thread, several at once: each request under way has a connection of
 * its own. Redirects are not followed: the headers may hold secrets.
 */
#ifndef NET_HTTP_CLIENT_POOL_H
#define NET_HTTP_CLIENT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct http_pool;

/* `ca_file`: certificate authorities for https; NULL = the system's. The caller frees it with
 * http_pool_free(), when no request is under way. */
struct http_pool *http_pool_new(const char *ca_file);
void http_pool_free(struct http_pool *pool); /* NULL is fine */

struct http_request {
	const char *method;
	const char *url; /* encoded; sent as it is */
	const char *const *headers; /* "name: value"; NULL ends them; NULL = none */

	bool has_body;
	const void *data; /* the body in memory, if fd is -1 */
	int fd; /* -1: the body is `data`; else a regular file, read from `offset` on */
	uint64_t offset;
	uint64_t len;

	int64_t deadline_mono_ns; /* INT64_MAX = none, but ERR_TIMEOUT after HTTP_POOL_SILENCE_S of silence */

	/* Each header of the answer, its name in lower case. May be NULL. */
	void (*header)(void *arg, const char *name, const char *value);

	/* The body of a 2xx answer in pieces of at most 512 KiB; NULL = it is collected in `answer`. A negative
	 * code ends the request with it. `*status` is set before. */
	int (*piece)(void *arg, const void *data, size_t len, struct err *e);
	void *arg;

	size_t answer_max; /* bytes of a collected 2xx answer; ERR_LIMIT beyond */
	bool is_direct; /* never by way of a proxy: for addresses of this host's own network */
	int64_t connect_ns; /* patience for connecting; 0 = HTTP_POOL_CONNECT_S */

	/* Set by any thread: ends the request within about a second, with ERR_CLOSED. May be NULL. */
	const _Atomic bool *cancelled;
	_Atomic uint64_t
		*sent; /* set to the bytes of the body that were sent so far; may be NULL */
};

#define HTTP_POOL_SILENCE_S   30
#define HTTP_POOL_CONNECT_S   5
#define HTTP_POOL_ERROR_BYTES ((size_t)64 << 10) /* kept of the body of any other answer */

/*
 * 0 when a whole answer came, whatever its `*status`; bodies other than those of 2xx are cut to
 * HTTP_POOL_ERROR_BYTES in `answer`. ERR_CLOSED: no connection, or it broke; ERR_TIMEOUT; in both cases the server may
 * have done what was asked. ERR_DENIED: its certificate is not trusted. ERR_INVALID: the URL, or the file to
 * send ends early. ERR_PEER: not HTTP. Messages name the host only, never the URL's query.
 */
MUST_CHECK int http_pool_request(struct http_pool *pool, const struct http_request *req,
				 int *status, struct buf *answer, struct err *e);

#endif
