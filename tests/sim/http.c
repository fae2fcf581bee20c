/* SPDX-License-Identifier: Apache-2.0 */
/* net/http_server.h: requests that are functions, answers that are memory. */
#include "net/http_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/buf.h"
#include "base/mem.h"
#include "tests/sim/sim.h"

struct http_req {
	struct http_server *server; /* NULL = gone */
	char *method, *path, *query, *body;
	sim_answer_fn fn; /* NULL once it was called */
	void *arg;
	void *user; /* of the handler */
	void (*release_user)(void *user);
	TAILQ_ENTRY(http_req) entry;
};

struct http_stream {
	struct http_server *server;
	void (*on_closed)(void *arg);
	void *arg;
	bool ended;
	sim_answer_fn fn;
	void *fn_arg;
	TAILQ_ENTRY(http_stream) entry;
};

/* An answer in pieces, which are gathered. */
struct http_body {
	struct http_server *server;
	struct http_req *req;
	const struct http_body_events *events;
	void *arg;
	struct buf text;
	bool is_posted, is_over; /* the one that is last frees it */
	TAILQ_ENTRY(http_body) entry;
};

struct http_server {
	struct loop *loop;
	struct sim_host *host;
	http_handler handler;
	void *arg;
	TAILQ_HEAD(, http_req) reqs;
	TAILQ_HEAD(, http_stream) streams;
	TAILQ_HEAD(, http_body) bodies;
	unsigned int posts;
	bool dead;
};

static struct http_server *the_server; /* of the aggregator that leads */

/* ---- requests ---- */

static void req_free(struct http_req *req)
{
	if (req->server)
		TAILQ_REMOVE(&req->server->reqs, req, entry);
	free(req->method);
	free(req->path);
	free(req->query);
	free(req->body);
	free(req);
}

static void call_back(struct http_req *req, int status, const void *body, size_t len)
{
	struct sim_host *was = sim.host;
	sim_answer_fn fn = req->fn;

	req->fn = NULL;
	sim.host = NULL;
	if (fn)
		fn(req->arg, status, body, len);
	sim.host = was;
}

static void server_put(struct http_server *s)
{
	if (!--s->posts && s->dead)
		free(s);
}

static void handle(void *arg)
{
	struct http_req *req = arg;
	struct http_server *s = req->server;

	if (s->dead) {
		call_back(req, 0, NULL, 0);
		req_free(req);
	} else {
		s->handler(req, s->arg);
	}
	server_put(s);
}

void http_ask(const char *method, const char *path, const char *body, sim_answer_fn fn, void *arg)
{
	const char *mark = strchr(path, '?');
	struct http_req *req;

	if (!the_server) {
		fn(arg, 0, NULL, 0);
		return;
	}
	req = xcalloc(1, sizeof(*req));
	req->server = the_server;
	req->method = xstrdup(method);
	req->path = xstrndup(path, mark ? (size_t)(mark - path) : strlen(path));
	req->query = xstrdup(mark ? mark + 1 : "");
	req->body = xstrdup(body ? body : "");
	req->fn = fn;
	req->arg = arg;
	TAILQ_INSERT_TAIL(&the_server->reqs, req, entry);
	the_server->posts++;
	loop_post(the_server->loop, handle, req);
}

const char *http_method(const struct http_req *req)
{
	return req->method;
}

const char *http_path(const struct http_req *req)
{
	return req->path;
}

const char *http_target(const struct http_req *req)
{
	return req->path;
}

/* One pair at most. */
const char *http_query(const struct http_req *req, const char *key)
{
	size_t len = strlen(key);

	return !strncmp(req->query, key, len) && req->query[len] == '=' ? req->query + len + 1
									: NULL;
}

const char *http_header(const struct http_req *req, const char *name)
{
	(void)req;
	(void)name;
	return NULL;
}

size_t http_header_count(const struct http_req *req, const char *name)
{
	(void)req;
	(void)name;
	return 0;
}

void http_set_user(struct http_req *req, void *user, void (*release)(void *user))
{
	if (req->release_user)
		req->release_user(req->user);
	req->user = user;
	req->release_user = release;
}

void *http_user(const struct http_req *req)
{
	return req->user;
}

void http_set_retry_after(struct http_req *req, int seconds)
{
	(void)req;
	(void)seconds;
}

void http_set_cookie(struct http_req *req, const char *cookie)
{
	(void)req;
	(void)cookie;
}

const void *http_body(const struct http_req *req, size_t *len)
{
	*len = strlen(req->body);
	return req->body;
}

const char *http_peer(const struct http_req *req)
{
	(void)req;
	return "127.0.0.1";
}

const char *http_identity(const struct http_req *req)
{
	(void)req;
	return "";
}

bool http_is_gone(struct http_req *req)
{
	(void)req;
	return false;
}

const char *http_identity_error(const struct http_req *req)
{
	(void)req;
	return "";
}

/* ---- answers ---- */

void http_answer(struct http_req *req, int status, const char *type, const void *body, size_t len)
{
	(void)type;
	sim_hash(body, len);
	http_set_user(req, NULL, NULL);
	call_back(req, status, body, len);
	req_free(req);
}

void http_answer_take(struct http_req *req, int status, const char *type, struct buf *body_taken)
{
	http_answer(req, status, type, buf_str(body_taken), body_taken->len);
	buf_release(body_taken);
}

bool http_has_kept(const struct http_req *req, const char *etag)
{
	(void)req;
	(void)etag;
	return false;
}

void http_answer_kept(struct http_req *req, const char *type, const struct http_kept *kept,
		      struct buf *body_taken)
{
	(void)kept;
	http_answer_take(req, 200, type, body_taken);
}

void http_answer_page(struct http_req *req, const void *body, size_t len, const char *policy)
{
	(void)policy;
	http_answer(req, 200, "text/html", body, len);
}

void http_answer_error(struct http_req *req, int status, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	http_answer(req, status, "", text, strlen(text));
}

void http_answer_redirect(struct http_req *req, const char *url)
{
	http_answer(req, 302, "", url, strlen(url));
}

void http_answer_elsewhere(struct http_req *req, const char *url, struct buf *body_taken)
{
	(void)url;
	http_answer_take(req, 307, "", body_taken);
}

bool http_file_part(const struct http_req *req, const struct http_file *file, uint64_t *first,
		    uint64_t *len)
{
	(void)req;
	*first = 0;
	*len = file->size;
	return true;
}

void http_answer_fd(struct http_req *req, int fd_taken, const struct http_file *file)
{
	uint64_t size = file->size;
	char *bytes = xmalloc(size + 1);
	ssize_t n = pread(fd_taken, bytes, size, 0);

	close(fd_taken);
	http_answer(req, n == (ssize_t)size ? 200 : 500, file->type, bytes, n > 0 ? (size_t)n : 0);
	free(bytes);
}

/* The store of the simulation is a folder: no file comes in pieces. */
struct http_body *http_answer_body(struct http_req *req, const struct http_file *file,
				   const struct http_body_events *events, void *arg)
{
	(void)file;
	(void)events;
	(void)arg;
	http_answer_error(req, 501, "no file comes in pieces here");
	return NULL;
}

static void on_body_room(void *arg)
{
	struct http_body *b = arg;
	struct http_server *s = b->server;

	b->is_posted = false;
	if (b->is_over)
		free(b);
	else
		b->events->on_room(b->arg, HTTP_PIECE_MIN);
	server_put(s);
}

static void body_end(struct http_body *b, int status)
{
	TAILQ_REMOVE(&b->server->bodies, b, entry);
	b->is_over = true;
	b->events->on_closed(b->arg);
	http_answer(b->req, status, "", buf_str(&b->text), b->text.len);
	buf_release(&b->text);
	if (!b->is_posted)
		free(b);
}

struct http_body *http_answer_pieces(struct http_req *req, const char *type,
				     const struct http_body_events *events, void *arg)
{
	struct http_server *s = req->server;
	struct http_body *b;

	(void)type;
	if (!s || s->dead) {
		http_answer(req, 503, "", "", 0);
		return NULL;
	}
	b = xcalloc(1, sizeof(*b));
	b->server = s;
	b->req = req;
	b->events = events;
	b->arg = arg;
	TAILQ_INSERT_TAIL(&s->bodies, b, entry);
	http_body_pause(b);
	return b;
}

void http_body_end(struct http_body *b)
{
	body_end(b, 200);
}

void http_body_add(struct http_body *b, struct buf *piece)
{
	buf_add(&b->text, piece->data, piece->len);
	buf_reset(piece);
}

size_t http_body_room(struct http_body *b, int64_t wait_ns)
{
	(void)b;
	(void)wait_ns;
	return 0;
}

void http_body_pause(struct http_body *b)
{
	b->is_posted = true;
	b->server->posts++;
	loop_post(b->server->loop, on_body_room, b);
}

void http_body_ref(struct http_body *b)
{
	(void)b;
}

void http_body_unref(struct http_body *b)
{
	(void)b;
}

void http_body_fail(struct http_body *b)
{
	(void)b;
}

/* `fn` gets its events one by one, then status 0. */
struct http_stream *http_answer_stream(struct http_req *req, void (*on_closed)(void *arg),
				       void *arg)
{
	struct http_server *s = req->server;
	struct http_stream *st = NULL;

	if (s && !s->dead) {
		st = xcalloc(1, sizeof(*st));
		*st = (struct http_stream){ .server = s,
					    .on_closed = on_closed,
					    .arg = arg,
					    .fn = req->fn,
					    .fn_arg = req->arg };
		TAILQ_INSERT_TAIL(&s->streams, st, entry);
		req->fn = NULL;
	}
	http_set_user(req, NULL, NULL);
	call_back(req, 0, NULL, 0);
	req_free(req);
	return st;
}

void http_stream_send(struct http_stream *st, const char *name, const char *data)
{
	(void)name;
	if (st && !st->ended && st->fn)
		st->fn(st->fn_arg, 200, data, strlen(data));
}

struct http_event {
	char *data;
};

struct http_event *http_event_take(const char *name, struct buf *data_taken)
{
	struct http_event *ev = xmalloc(sizeof(*ev));

	(void)name;
	ev->data = xstrdup(buf_str(data_taken));
	buf_release(data_taken);
	return ev;
}

/* A part is an event here. */
struct http_event *http_event_part(struct http_parts *p, struct buf *data_taken, bool is_last)
{
	(void)is_last;
	return http_event_take(p->name, data_taken);
}

void http_stream_send_event(struct http_stream *st, struct http_event *ev)
{
	http_stream_send(st, "", ev->data);
}

void http_event_free(struct http_event *ev)
{
	if (!ev)
		return;
	free(ev->data);
	free(ev);
}

static void stream_gone(struct http_stream *st)
{
	TAILQ_REMOVE(&st->server->streams, st, entry);
	st->on_closed(st->arg);
	if (st->fn)
		st->fn(st->fn_arg, 0, NULL, 0);
	free(st);
}

static void on_stream_end(void *arg)
{
	struct http_server *s = arg;
	struct http_stream *st, *next;

	for (st = TAILQ_FIRST(&s->streams); st && !s->dead; st = next) {
		next = TAILQ_NEXT(st, entry);
		if (st->ended)
			stream_gone(st);
	}
	server_put(s);
}

void http_stream_end(struct http_stream *st)
{
	if (!st || st->ended)
		return;
	st->ended = true;
	st->server->posts++;
	loop_post(st->server->loop, on_stream_end, st->server);
}

/* ---- life ---- */

int http_server_new(struct http_server **out, struct loop *loop,
		    const struct http_server_opts *opts, http_handler handler, void *arg, int *port,
		    struct err *e)
{
	struct http_server *s = xcalloc(1, sizeof(*s));

	(void)opts;
	(void)e;
	s->loop = loop;
	s->host = sim.host;
	s->handler = handler;
	s->arg = arg;
	TAILQ_INIT(&s->reqs);
	TAILQ_INIT(&s->streams);
	TAILQ_INIT(&s->bodies);
	if (port)
		*port = 1;
	*out = the_server = s;
	return 0;
}

/* Callers get no further answer. */
void http_host_gone(struct sim_host *h)
{
	struct http_server *s = the_server;
	struct http_req *req;
	struct http_stream *st;

	if (!s || s->host != h)
		return;
	the_server = NULL;
	TAILQ_FOREACH (req, &s->reqs, entry)
		call_back(req, 0, NULL, 0);
	TAILQ_FOREACH (st, &s->streams, entry)
		st->fn = NULL;
}

void http_server_free(struct http_server *s)
{
	struct http_req *req;
	struct http_stream *st;
	struct http_body *b;

	if (!s)
		return;
	if (the_server == s)
		the_server = NULL;
	while ((st = TAILQ_FIRST(&s->streams)))
		stream_gone(st);
	while ((b = TAILQ_FIRST(&s->bodies)))
		body_end(b, 503);
	s->dead = true;
	s->posts++;
	/* Requests that no handler has seen are freed by the posts that name them. */
	while (s->posts > 1)
		loop_turn(s->loop, 10);
	while ((req = TAILQ_FIRST(&s->reqs))) {
		call_back(req, 503, NULL, 0);
		TAILQ_REMOVE(&s->reqs, req, entry);
		req->server = NULL;
	}
	server_put(s);
}
