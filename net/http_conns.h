/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of what clients take from an HTTP server: connections, time and memory. Any thread. Private to
 * net/http_server*.c.
 *
 * Connections are shared out among addresses (net/peers.h). A request's head and body have a time limit that
 * single bytes do not extend. Bodies share a budget of memory, and answers that are not sent yet share
 * another; a small body or answer counts in none. When the budget of answers is used up, the connection with
 * the oldest answer is closed.
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

/* the first bytes of a body, which do not count in the budget */
#define HTTP_BODY_FREE_BYTES   4096
#define HTTP_BODIES_MAX_BYTES  ((size_t)8 << 20)
#define HTTP_ANSWER_FREE_BYTES 4096
/* or HTTP_ANSWERS_LARGEST times the largest answer, if that is more */
#define HTTP_ANSWERS_MAX_BYTES ((size_t)24 << 20)
#define HTTP_ANSWERS_LARGEST   8
#define HTTP_HEAD_NS	       (10 * INT64_C(1000000000))
#define HTTP_BODY_NS	       (10 * INT64_C(1000000000))
#define HTTP_BODY_BYTES_PER_S  (32 << 10) /* a body has HTTP_BODY_NS plus its length at this rate */

/* `max` connections. The timer is the loop's; http_conns_stop() ends it. */
struct http_conns *http_conns_new(struct loop *loop, size_t max);
void http_conns_stop(struct http_conns *s); /* loop thread */
void http_conns_free(struct http_conns *s); /* every connection has ended; NULL is fine */

/* Whether this address may have one more connection. */
bool http_conns_admit(struct http_conns *s, const struct sockaddr *address);

/* A connection begins, and its first head must come in time; it ends before its fd is closed. */
struct http_conn *http_conn_begin(struct http_conns *s, const struct sockaddr *address, int fd);
void http_conn_end(struct http_conn *c);

/* The request under way, for the server's own use; NULL = none. The library's thread. */
void http_conn_set_request(struct http_conn *c, void *request);
void *http_conn_request(const struct http_conn *c);

/* Shuts the connection down unless the next call for it comes within limit_ns; 0 = no limit. */
void http_conn_expect(struct http_conn *c, int64_t limit_ns);

/* The request's body has this many bytes now. False: the budget has no room for them. */
bool http_conn_body(struct http_conn *c, size_t bytes);

/* An answer that takes this much memory is about to be sent. */
void http_conn_answer(struct http_conn *c, size_t bytes);

/* The request is over: the memory is free; the next head has idle_ns. */
void http_conn_done(struct http_conn *c, int64_t idle_ns);

#endif
