/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the HTTP server. Private to net/http_server*.c.
 *
 * Ownership. microhttpd's thread and the loop share a request: each holds a reference. When the request
 * is complete, the thread suspends its connection and posts; from then on microhttpd does not touch it,
 * so the loop may answer later. The loop stores an answer and resumes; the thread is called again and
 * queues the answer. microhttpd's `completed` callback drops the thread's reference.
 *
 * A stream, and a body that comes in pieces, are shared in the same way. Its reader suspends the connection when there is nothing to send
 * and the producer resumes it; both hold the stream's lock, so that no resume is lost.
 *
 * Locks: server or stream, then microhttpd's own. No lock is held during a callback.
 */
#ifndef NET_HTTP_SERVER_IMPL_H
#define NET_HTTP_SERVER_IMPL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/loop.h"
#include "net/http_conns.h"
#include "net/http_parse.h"
#include "net/http_server.h"

struct http_req {
	atomic_int refs;
	struct http_server *server; /* loop thread; NULL once the server is freed */
	struct MHD_Connection *conn; /* valid while the loop holds the request */
	struct http_conn *place; /* the limits of the same connection; may be NULL */
	struct http_req *prev, *next; /* in http_server.held; under the server's lock */
	char *method, *path;
	char *target; /* as it came: the path and the query */
	struct pairs query, headers;
	struct buf body;
	/* microhttpd's thread: the length in Content-Length, and the bytes received */
	uint64_t body_expected, body_seen;
	bool started; /* microhttpd's thread: the headers were checked */
	bool asks_certificate; /* the server checks client certificates */
	bool unframed; /* microhttpd's thread: the headers do not define one end of the body */
	int refused; /* microhttpd's thread: the status of the refusal, or 0 */
	struct err why;
	char peer[INET6_ADDRSTRLEN];
	char *identity; /* NULL = none */
	char *identity_error; /* of a certificate that is not accepted; NULL = none */
	void *user; /* loop thread: of the handler */
	void (*release_user)(void *user);
	int retry_after_s; /* that the answer says; 0 = nothing */
	char *cookie; /* that the answer sets; NULL = none */

	/* Under the server's lock. */
	bool held;
	struct MHD_Response *answer;
	size_t answer_bytes; /* of memory */
	unsigned int status;
	struct http_stream *stream;
	struct http_body *file_body;
};

struct http_stream {
	atomic_int refs;
	struct loop *loop;
	pthread_mutex_t lock; /* guards the members down to the next comment line */
	struct MHD_Connection *conn; /* NULL once microhttpd is done with it */
	STAILQ_HEAD(http_unsent_list, http_unsent) backlog;
	size_t backlog_len; /* bytes in all that are not sent */
	struct http_unsent_list held; /* until the event is over that comes in parts */
	size_t held_len;
	bool in_event; /* some of its parts were added, and not the last one */
	size_t sent; /* bytes of the backlog's first event */
	size_t largest; /* event so far, bytes */
	bool suspended, ended, cut, end_posted;
	atomic_size_t *backlogs; /* the server's sum; valid while `conn` is */
	/* ---- the loop's thread ---- */
	struct http_server *server; /* NULL once `on_closed` was called */
	struct http_stream *prev, *next;
	void (*on_closed)(void *arg);
	void *arg;
};

struct http_server {
	struct MHD_Daemon *daemon;
	struct loop *loop;
	http_handler handler;
	void *arg;
	char *cert, *key, *ca;
	struct http_conns *conns;
	struct loop_timer heartbeat;
	struct http_stream *streams; /* loop thread */
	atomic_size_t backlogs; /* bytes, of all streams */
	size_t largest_event; /* loop thread */
	struct http_body *open_bodies; /* loop thread */
	atomic_size_t bodies; /* bytes that file bodies hold or have asked for */
	_Atomic int64_t log_second;
	atomic_int log_lines;

	/* guards the four members below, and those of struct http_req that say so */
	pthread_mutex_t lock;
	pthread_cond_t completed;
	bool closing;
	size_t under_way; /* requests that microhttpd has not completed */
	struct http_req *held; /* posted to the loop, not yet answered */
};

/* ---- http_server.c ---- */

void req_unref(struct http_req *req);

/* Gives the connection back to its thread with an answer (taken). The server's lock is held. */
void req_hand_over(struct http_server *s, struct http_req *req, unsigned int status,
		   struct MHD_Response *resp);

/* ---- http_server_answer.c ---- */

/* Ends the loop's use of a request. Takes `resp`. */
void req_answer(struct http_req *req, int status, struct MHD_Response *resp);

/* Adds the headers of every answer. Returns `resp`. */
struct MHD_Response *response_finish(struct MHD_Response *resp, const char *type);
struct MHD_Response *response_error(const char *text);

/* Answers with bytes whose number is not known before the last one. Takes `resp`. */
void answer_unmeasured(struct http_req *req, const char *type, struct MHD_Response *resp);

/* Answers with the part of the file that the request asks for, whose bytes `resp_taken` gives; or with 416. */
void answer_file(struct http_req *req, struct MHD_Response *resp_taken,
		 const struct http_file *file);
void answer_outside(struct http_req *req, const struct http_file *file);

/* ---- http_server_tls.c ---- */

/* The common name of the connection's verified certificate; NULL without one. `*error` becomes the reason why one
 * that was shown is not accepted, else NULL. The caller frees both. */
char *tls_client_name(struct MHD_Connection *conn, char **error);

/* ---- http_server_body.c ---- */

/* microhttpd's thread: the connection has ended. */
void body_completed(struct http_body *b);

/* Loop thread: cuts all off and calls their on_closed(). */
void bodies_end(struct http_server *s);

/* ---- http_server_stream.c ---- */

void stream_unref(struct http_stream *st);

/* microhttpd's thread: the connection has ended. */
void stream_completed(struct http_stream *st);

/* Loop thread: sends one comment line to all; ends all and calls their `on_closed`. */
void streams_send_heartbeat(struct http_server *s);
void streams_end(struct http_server *s);

#endif
