/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 server on libmicrohttpd: its threads do the socket work, the handler runs on the loop's
 * thread and answers now or later. Only net/http_server*.c include microhttpd's headers.
 *
 * A request whose headers do not define one end of its body is refused with 400, and its connection closed.
 * Request bodies are collected in memory, at most LIMIT_HTTP_BODY_BYTES (413 beyond). File answers obey
 * Range (one range) and If-Range; they are sent with sendfile, or piece by piece. A stream answer stays open for server-sent events.
 */
#ifndef NET_HTTP_SERVER_H
#define NET_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct http_server;
struct buf;
struct http_req; /* one request; the handler answers it exactly once, which frees it */
struct http_stream; /* an open text/event-stream answer */
struct http_body; /* a file answer whose bytes come in pieces */

struct http_server_opts {
	const char *address; /* "127.0.0.1:7400", "[::]:0" */
	const char *cert_file, *key_file; /* both set = TLS */
	/* with TLS: asks clients for a certificate of these authorities; NULL = does not */
	const char *ca_file;
	int threads; /* 2 to 4 */
};

/* Called on the loop's thread for every complete request. */
typedef void (*http_handler)(struct http_req *req, void *arg);

MUST_CHECK int http_server_new(struct http_server **out, struct loop *loop,
			       const struct http_server_opts *opts, http_handler handler, void *arg,
			       int *port, struct err *e);

/* Ends streams (their `on_closed` runs inside), refuses unanswered requests with 503, frees. Blocks for a
 * second at most. The handler must still answer open requests, but its answers then only free them. No other
 * callback comes after it. NULL is fine. */
void http_server_free(struct http_server *s);

/* All borrowed until the answer. A decoded text may have '/', quotes and control characters in it, but no
 * NUL. In a query '+' is a space; of several equal keys the first counts. */
const char *http_method(const struct http_req *req); /* "GET" */
const char *http_path(const struct http_req *req); /* decoded, without the query: "/api/v1/hosts" */
const char *http_query(const struct http_req *req, const char *key); /* decoded value, or NULL */
const char *http_target(const struct http_req *req); /* as it came: "/s%2F?a=b" */
const char *http_header(const struct http_req *req, const char *name); /* or NULL; the first */
size_t http_header_count(const struct http_req *req, const char *name); /* how often it was sent */
const void *http_body(const struct http_req *req, size_t *len);
const char *http_peer(const struct http_req *req); /* "127.0.0.1" */

/* What the handler keeps with a request: `release` is called with it when the request is freed. Loop thread. */
void http_set_user(struct http_req *req, void *user, void (*release)(void *user));
void *http_user(const struct http_req *req); /* or NULL */

/* The answer says when to ask again: a header Retry-After. */
void http_set_retry_after(struct http_req *req, int seconds);

/* The answer, whichever it is, sets this cookie: "name=value; Path=/; ...", of letters that a header may have. */
void http_set_cookie(struct http_req *req, const char *cookie);

/* Whether the client closed the connection, or its sending side, while it waits for the answer, whatever it sent before and over
 * TLS, too: microhttpd gives such a client no answer any more. */
bool http_is_gone(struct http_req *req);

/* Common name of the client's certificate; "" without one, or if it is not valid now or not from an authority
 * of opts.ca_file. */
const char *http_identity(const struct http_req *req);

/* Why the client's certificate is not accepted; "" if it is accepted, or if there is none. */
const char *http_identity_error(const struct http_req *req);

/* The body is copied. `type` is a content type, a constant string. Every answer 401 asks for a bearer token. */
void http_answer(struct http_req *req, int status, const char *type, const void *body, size_t len);
void http_answer_take(struct http_req *req, int status, const char *type, struct buf *body_taken);

/* An answer that a browser may keep. */
struct http_kept {
	const char *etag; /* without quotes; made of letters, digits, '-' and '.' */
	bool is_immutable; /* the URL names these bytes for ever: not asked for again */
	bool is_partial; /* 202, and not kept: asked again, there will be more */
	bool is_gzip; /* the body is compressed; the caller saw that the request accepts it */
	int64_t work_ns; /* what making it took, for Server-Timing */
};

/* 200 (or 202) with the body or, if the request has the etag already, 304 without it. */
void http_answer_kept(struct http_req *req, const char *type, const struct http_kept *kept,
		      struct buf *body_taken);

/* Whether the request has the answer with this etag already. */
bool http_has_kept(const struct http_req *req, const char *etag);

/* 200 and an HTML page; `policy` is its Content-Security-Policy. The body is copied. The policy of every
 * other answer forbids a browser to load or run anything, and to show the answer in a frame. */
void http_answer_page(struct http_req *req, const void *body, size_t len, const char *policy);

/* {"error": "<text>"} with the status. */
void http_answer_error(struct http_req *req, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* 302 to `url`, which is in no log. */
void http_answer_redirect(struct http_req *req, const char *url);

/* 307 to `url`, with a body of JSON: the same request is to be made there. */
void http_answer_elsewhere(struct http_req *req, const char *url, struct buf *body_taken);

/* ---- files ---- */

/* What an answer says of a file; borrowed for the call. */
struct http_file {
	uint64_t size;
	const char *type;
	const char *download; /* makes it an attachment of this name; may be NULL */
	const char *tag; /* of this version of the file; NULL or "" = unknown */
};

/* The part of the file that the request asks for with Range, and with If-Range; all of it without them. False: there is no such
 * part. Any thread. */
bool http_file_part(const struct http_req *req, const struct http_file *file, uint64_t *first,
		    uint64_t *len);

/* 200 or, for a valid Range, 206; 416 for one outside the file. Closes the fd. The tag becomes the ETag. HEAD sends no body. */
void http_answer_fd(struct http_req *req, int fd_taken, const struct http_file *file);

/*
 * The same for a file whose bytes come in pieces, which the loop is asked for when there is room: two pieces at most are in memory,
 * and none is asked for while the client does not read. Some bytes may be brought by a worker, on and on. All bodies together hold HTTP_BODIES_BYTES, and HTTP_PIECE_MIN for each that
 * begins beyond that.
 */
struct http_body_events {
	/* The next `bytes` bytes of the part are wanted, as one piece. Whoever brings them may go on with further ones, as long as
	 * http_body_room() has room, and then calls http_body_pause() or http_body_fail(); now or later. */
	void (*on_room)(void *arg, size_t bytes);
	/* Once: all is sent, or the client is gone, or the server ends. The body is freed after it. */
	void (*on_closed)(void *arg);
};
#define HTTP_BODIES_BYTES ((size_t)64 << 20)
#define HTTP_PIECE_MIN	  ((size_t)64 << 10)
#define HTTP_PIECE_MAX	  ((size_t)1 << 20)

/* NULL, and no event, if the answer needs no bytes (HEAD, 416, an empty file) or the server has ended. */
struct http_body *http_answer_body(struct http_req *req, const struct http_file *file,
				   const struct http_body_events *events, void *arg);

/* A piece: the bytes that were asked for, or fewer. The buffer is empty then, and may have the memory of an earlier piece. Any thread
 * that has a reference. */
void http_body_add(struct http_body *b, struct buf *piece);

/* How many bytes a further piece may have: waits for room so long at most. 0: the client does not read so fast, or is gone. Any thread
 * that has a reference. */
size_t http_body_room(struct http_body *b, int64_t wait_ns);

/* For now there are no more: on_room() asks again when there is room. */
void http_body_pause(struct http_body *b);

/* A reference for a worker that brings bytes. */
void http_body_ref(struct http_body *b);
void http_body_unref(struct http_body *b);

/* An answer whose length is not known yet: as a file, without parts and tags, up to http_body_end(). The pieces may have
 * somewhat more bytes than were asked for. NULL, and no event, if the server has ended. */
struct http_body *http_answer_pieces(struct http_req *req, const char *type,
				     const struct http_body_events *events, void *arg);

/* All pieces were added; instead of http_body_pause(). Loop thread. */
void http_body_end(struct http_body *b);

/* They cannot be had: the connection is cut, so that the client sees that bytes are missing. */
void http_body_fail(struct http_body *b);

/* ---- streams ---- */

/*
 * 200 text/event-stream, kept open. `on_closed` is called once, on the loop's thread, when the client
 * disconnected or the server ends; the stream is freed after it. A client that does not read is cut off
 * at a backlog of 1 MiB or of four times the largest event, whichever is more; a heartbeat comment every
 * 15 s detects one that vanished. NULL, and no `on_closed`, if the server has ended already; the calls below
 * take NULL and do nothing.
 */
struct http_stream *http_answer_stream(struct http_req *req, void (*on_closed)(void *arg),
				       void *arg);

/* One event: "event: <name>\ndata: <data>\n\n"; data has no newline. */
void http_stream_send(struct http_stream *st, const char *name, const char *data);

/* The same event for several streams, which share its bytes. */
struct http_event *http_event_take(const char *name, struct buf *data_taken);
void http_stream_send_event(struct http_stream *st, struct http_event *ev);

/* One event in parts, so that it is never in memory as a whole: to streams that got its begin, for which other events wait meanwhile. A
 * stream gets one such event at a time. */
struct http_parts {
	const char *name;
	size_t len; /* so far; 0 before the first part */
};
struct http_event *http_event_part(struct http_parts *p, struct buf *data_taken, bool is_last);
void http_event_free(
	struct http_event *ev); /* streams that have not sent it keep it; NULL is fine */
void http_stream_end(struct http_stream *st); /* `on_closed` is still called */

/* The parser behind http_query(), for fuzzing: calls fn for each decoded key=value of a query
 * string. ERR_INVALID for a bad escape or an embedded NUL, ERR_LIMIT beyond LIMIT_HTTP_QUERY_*. */
MUST_CHECK int http_parse_query(const char *query, size_t len,
				void (*fn)(void *arg, const char *key, const char *value),
				void *arg, struct err *e);

#endif
