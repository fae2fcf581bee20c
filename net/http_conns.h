/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the clients of an HTTP server may hold of it: connections, time and memory. Any thread. Private to
 * net/http_server*.c.
 *
 * Connections are shared out among addresses (net/peers.h). A request's head and body must be complete in time, at
 * whatever pace their bytes come. Bodies beyond a few kilobytes share a budget, and so do answers until they are
 * sent; the oldest answer is cut off for a newer one.
 */
#ifndef NET_HTTP_CONNS_H
#define NET_HTTP_CONNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct http_conns;
struct http_conn; /* one connection */
struct loop;

#define HTTP_BODY_FREE_BYTES   4096 /* of each body; what is longer takes from the budget */
#define HTTP_BODIES_MAX_BYTES  ((size_t)8 << 20)
#define HTTP_ANSWER_FREE_BYTES 4096
#define HTTP_ANSWERS_MAX_BYTES ((size_t)24 << 20) /* or ANSWERS_LARGEST times the largest */
#define HTTP_ANSWERS_LARGEST   8
#define HTTP_HEAD_NS	       (10 * INT64_C(1000000000))
#define HTTP_BODY_NS	       (10 * INT64_C(1000000000))
#define HTTP_BODY_BYTES_PER_S  (32 << 10) /* on top of HTTP_BODY_NS: a slower body is cut off */

/* `max` connections. The timer is the loop's; http_conns_stop() ends it. */
struct http_conns *http_conns_new(struct loop *loop, size_t max);
void http_conns_stop(struct http_conns *s); /* loop thread */
void http_conns_free(struct http_conns *s); /* every connection has ended; NULL is fine */

/* Whether one more connection of this address is within its share. */
bool http_conns_admit(struct http_conns *s, const struct sockaddr *address);

/* A connection begins, and its first head must come in time; it ends before its fd is closed. */
struct http_conn *http_conn_begin(struct http_conns *s, const struct sockaddr *address, int fd);
void http_conn_end(struct http_conn *c);

/* The request under way, for the server's own use; NULL = none. The library's thread. */
void http_conn_set_request(struct http_conn *c, void *request);
void *http_conn_request(const struct http_conn *c);

/* What must have come within limit_ns, or the connection is shut down; 0 = nothing is waited for. */
void http_conn_expect(struct http_conn *c, int64_t limit_ns);

/* The request's body has so many bytes now. False: there is no budget for that. */
bool http_conn_body(struct http_conn *c, size_t bytes);

/* An answer of so many bytes of memory is about to be sent. */
void http_conn_answer(struct http_conn *c, size_t bytes);

/* The request is over: the memory is free; the next head has idle_ns. */
void http_conn_done(struct http_conn *c, int64_t idle_ns);

#endif
