/* SPDX-License-Identifier: Apache-2.0 */
/* Answers whose bytes come in pieces: two at most wait between the loop and microhttpd's thread. */
#include "net/http_server_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/now.h"

#define BLOCK_BYTES ((size_t)128 << 10) /* of one send */
#define SPARES	    2 /* both pieces may be sent before the next one is there */

/* One piece, and what was reserved for it. */
struct piece {
	struct buf bytes;
	size_t reserved;
};

struct http_body {
	atomic_int refs;
	struct loop *loop;
	uint64_t len; /* of all; MHD_SIZE_UNKNOWN = to http_body_end() */
	pthread_mutex_t lock; /* guards the members down to the next comment line */
	struct MHD_Connection *conn; /* NULL once microhttpd is done with it */
	struct piece now, next;
	struct buf spares[SPARES]; /* empty, with the memory of pieces that were sent */
	size_t sent; /* bytes of `now` */
	uint64_t added; /* bytes */
	pthread_cond_t changed; /* there is room, or the end */
	size_t asked; /* reserved for the next piece; 0 = none */
	bool asking; /* from the post of on_room() to http_body_pause() */
	bool suspended, failed, end_posted;
	bool is_whole; /* http_body_end() was called */
	atomic_size_t *bodies; /* the server's sum; valid while `conn` is */
	/* ---- the loop's thread ---- */
	struct http_server *server; /* NULL once on_closed() was called */
	struct http_body *before, *after;
	const struct http_body_events *events;
	void *arg;
};

static void drop_spares(struct http_body *b)
{
	for (size_t i = 0; i < SPARES; i++)
		buf_release(&b->spares[i]);
}

void http_body_unref(struct http_body *b)
{
	if (atomic_fetch_sub(&b->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&b->lock);
	pthread_cond_destroy(&b->changed);
	buf_release(&b->now.bytes);
	buf_release(&b->next.bytes);
	drop_spares(b);
	free(b);
}

static void body_release(void *arg)
{
	http_body_unref(arg);
}

void http_body_ref(struct http_body *b)
{
	atomic_fetch_add(&b->refs, 1);
}

/* ---- the loop asks for a piece ---- */

/* What one piece may have: less, the more memory all bodies together have. */
static size_t room_for_piece(const struct http_body *b, size_t used)
{
	size_t room = used < HTTP_BODIES_BYTES ? (HTTP_BODIES_BYTES - used) / 4 : 0;
	uint64_t left = b->len - b->added;

	room = room < HTTP_PIECE_MIN ? HTTP_PIECE_MIN : room;
	room = room > HTTP_PIECE_MAX ? HTTP_PIECE_MAX : room;
	return room < left ? room : (size_t)left;
}

/* The lock is held. 0 without room. */
static size_t reserve_piece(struct http_body *b)
{
	if (!b->conn || b->failed || b->next.bytes.len)
		return 0;
	atomic_fetch_sub(b->bodies, b->asked);
	b->asked = room_for_piece(b, atomic_load(b->bodies));
	atomic_fetch_add(b->bodies, b->asked);
	return b->asked;
}

size_t http_body_room(struct http_body *b, int64_t wait_ns)
{
	int64_t until_ns = now_mono_ns() + wait_ns;
	struct timespec until = { until_ns / NS_PER_S, until_ns % NS_PER_S };
	bool in_time = true;
	size_t bytes;

	pthread_mutex_lock(&b->lock);
	while (in_time && b->conn && !b->failed && b->next.bytes.len)
		in_time = !pthread_cond_timedwait(&b->changed, &b->lock, &until);
	bytes = reserve_piece(b);
	pthread_mutex_unlock(&b->lock);
	return bytes;
}

static void on_room(void *arg)
{
	struct http_body *b = arg;
	size_t bytes = b->server ? http_body_room(b, 0) : 0;

	if (bytes)
		b->events->on_room(b->arg, bytes);
	http_body_unref(b);
}

/* The lock is held. */
static void ask(struct http_body *b)
{
	if (b->asking || b->failed || b->next.bytes.len || b->added == b->len || b->is_whole)
		return;
	b->asking = true;
	atomic_fetch_add(&b->refs, 1);
	loop_post(b->loop, on_room, b);
}

/* ---- microhttpd's thread; the lock is held ---- */

static void drop_piece(struct http_body *b, struct piece *p)
{
	atomic_fetch_sub(b->bodies, p->reserved);
	buf_release(&p->bytes);
	p->reserved = 0;
}

/* For the next piece: new memory costs more than the copy into it. */
static void keep_memory(struct http_body *b, struct buf *piece)
{
	size_t i = b->spares[0].data ? 1 : 0;

	buf_release(&b->spares[i]);
	b->spares[i] = *piece;
	b->spares[i].len = 0;
	*piece = (struct buf)BUF_INIT;
}

static struct buf take_memory(struct http_body *b)
{
	size_t i = b->spares[1].data ? 1 : 0;
	struct buf spare = b->spares[i];

	b->spares[i] = (struct buf)BUF_INIT;
	return spare;
}

static size_t take_bytes(struct http_body *b, char *out, size_t max)
{
	size_t left = b->now.bytes.len - b->sent, n = left < max ? left : max;

	memcpy(out, b->now.bytes.data + b->sent, n);
	b->sent += n;
	if (b->sent == b->now.bytes.len) {
		keep_memory(b, &b->now.bytes);
		drop_piece(b, &b->now);
		b->now = b->next;
		b->next = (struct piece){ 0 };
		b->sent = 0;
		pthread_cond_signal(&b->changed);
		ask(b);
	}
	return n;
}

static ssize_t body_read(void *arg, uint64_t pos, char *out, size_t max)
{
	struct http_body *b = arg;
	ssize_t n = 0;

	(void)pos;
	pthread_mutex_lock(&b->lock);
	if (b->now.bytes.len) {
		n = (ssize_t)take_bytes(b, out, max);
	} else if (b->failed) {
		n = MHD_CONTENT_READER_END_WITH_ERROR;
	} else if (b->is_whole) {
		n = MHD_CONTENT_READER_END_OF_STREAM;
	} else {
		b->suspended = true;
		MHD_suspend_connection(b->conn);
	}
	pthread_mutex_unlock(&b->lock);
	return n;
}

/* ---- the loop's thread ---- */

/* The lock is held. */
static void wake(struct http_body *b)
{
	if (b->suspended && b->conn)
		MHD_resume_connection(b->conn);
	b->suspended = false;
}

void http_body_add(struct http_body *b, struct buf *piece)
{
	struct piece *p;

	pthread_mutex_lock(&b->lock);
	if (b->conn && piece->len) {
		p = b->now.bytes.len ? &b->next : &b->now;
		*p = (struct piece){ *piece, b->asked };
		*piece = take_memory(b);
		b->added += p->bytes.len;
		b->asked = 0;
		wake(b);
	}
	pthread_mutex_unlock(&b->lock);
	buf_reset(piece);
}

static void end_asking(struct http_body *b, bool is_whole)
{
	pthread_mutex_lock(&b->lock);
	if (b->conn)
		atomic_fetch_sub(b->bodies, b->asked);
	b->asked = 0;
	b->asking = false;
	b->is_whole = is_whole;
	drop_spares(b);
	if (is_whole)
		wake(b);
	else
		ask(b);
	pthread_mutex_unlock(&b->lock);
}

void http_body_pause(struct http_body *b)
{
	end_asking(b, false);
}

void http_body_end(struct http_body *b)
{
	end_asking(b, true);
}

void http_body_fail(struct http_body *b)
{
	pthread_mutex_lock(&b->lock);
	b->failed = true;
	pthread_cond_signal(&b->changed);
	wake(b);
	pthread_mutex_unlock(&b->lock);
}

/* Calls on_closed() once. */
static void body_end(struct http_body *b)
{
	struct http_server *s = b->server;

	if (!s)
		return;
	if (b->before)
		b->before->after = b->after;
	else
		s->open_bodies = b->after;
	if (b->after)
		b->after->before = b->before;
	b->server = NULL;
	b->events->on_closed(b->arg);
}

static void on_body_gone(void *arg)
{
	body_end(arg);
	http_body_unref(arg);
}

/* Once for each body: the post takes the loop's reference. The lock is held. */
static void post_end(struct http_body *b)
{
	if (b->end_posted)
		return;
	b->end_posted = true;
	loop_post(b->loop, on_body_gone, b);
}

void body_completed(struct http_body *b)
{
	pthread_mutex_lock(&b->lock);
	drop_piece(b, &b->now);
	drop_piece(b, &b->next);
	atomic_fetch_sub(b->bodies, b->asked);
	b->asked = 0;
	b->conn = NULL;
	pthread_cond_signal(&b->changed);
	post_end(b);
	pthread_mutex_unlock(&b->lock);
}

void bodies_end(struct http_server *s)
{
	while (s->open_bodies) {
		struct http_body *b = s->open_bodies;

		pthread_mutex_lock(&b->lock);
		b->failed = true;
		pthread_cond_signal(&b->changed);
		wake(b);
		post_end(b);
		pthread_mutex_unlock(&b->lock);
		body_end(b);
	}
}

static void init_changed(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* The loop (until on_closed()), the request and the response hold a reference each. */
static struct http_body *body_new(struct http_req *req, const struct http_body_events *events,
				  void *arg, uint64_t len)
{
	struct http_body *b = xcalloc(1, sizeof(*b));
	struct http_server *s = req->server;

	atomic_init(&b->refs, 3);
	pthread_mutex_init(&b->lock, NULL);
	init_changed(&b->changed);
	b->len = len;
	b->events = events;
	b->arg = arg;
	b->server = s;
	b->loop = s->loop;
	b->bodies = &s->bodies;
	b->conn = req->conn;
	b->after = s->open_bodies;
	if (b->after)
		b->after->before = b;
	s->open_bodies = b;
	return b;
}

/* A HEAD: the length alone. */
static ssize_t read_nothing(void *arg, uint64_t pos, char *out, size_t max)
{
	(void)arg;
	(void)pos;
	(void)out;
	(void)max;
	return MHD_CONTENT_READER_END_WITH_ERROR;
}

static struct MHD_Response *begin_body(struct http_req *req, uint64_t len,
				       const struct http_body_events *events, void *arg)
{
	struct http_body *b = body_new(req, events, arg, len);

	req->file_body = b;
	pthread_mutex_lock(&b->lock);
	ask(b);
	pthread_mutex_unlock(&b->lock);
	return MHD_create_response_from_callback(len, BLOCK_BYTES, body_read, b, body_release);
}

/* Whether the server has ended, and the request with it. */
static bool has_ended(struct http_req *req)
{
	if (req->server)
		return false;
	http_set_user(req, NULL, NULL);
	req_unref(req);
	return true;
}

struct http_body *http_answer_body(struct http_req *req, const struct http_file *file,
				   const struct http_body_events *events, void *arg)
{
	struct MHD_Response *resp;
	struct http_body *b;
	uint64_t first, len;
	bool is_empty;

	if (!http_file_part(req, file, &first, &len)) {
		answer_outside(req, file);
		return NULL;
	}
	if (has_ended(req))
		return NULL;
	is_empty = !len || !strcmp(req->method, "HEAD");
	resp = is_empty ? MHD_create_response_from_callback(len, 1, read_nothing, NULL, NULL)
			: begin_body(req, len, events, arg);
	b = req->file_body;
	answer_file(req, resp, file);
	return b;
}

struct http_body *http_answer_pieces(struct http_req *req, const char *type,
				     const struct http_body_events *events, void *arg)
{
	struct MHD_Response *resp;
	struct http_body *b;

	if (has_ended(req))
		return NULL;
	resp = begin_body(req, MHD_SIZE_UNKNOWN, events, arg);
	b = req->file_body;
	answer_unmeasured(req, type, resp);
	return b;
}
