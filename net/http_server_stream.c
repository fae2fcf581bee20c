/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: a bounded backlog between the loop and microhttpd's thread. Streams share an event's bytes. */
#include "net/http_server_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/mem.h"

#define BACKLOG_BYTES ((size_t)1 << 20)
/* a stream's backlog, in events of the largest size so far; more if BACKLOG_BYTES is more */
#define BACKLOG_EVENTS 4
/* all streams together; or BACKLOGS_EVENTS, if that is more */
#define BACKLOGS_BYTES	   ((size_t)16 << 20)
#define BACKLOGS_EVENTS	   16
#define STREAM_BLOCK_BYTES 16384

/* Its bytes are the head, the data and the tail: the data may have megabytes, and is not copied. */
struct http_event {
	atomic_size_t refs;
	size_t len; /* of all three */
	size_t so_far; /* with the parts before; of a whole event, its length */
	bool is_first, is_last; /* part; a whole event is both */
	char head[64];
	struct buf data;
	const char *tail;
};

struct http_unsent {
	struct http_event *event;
	STAILQ_ENTRY(http_unsent) next;
};

/* It has no data yet. */
static struct http_event *event_new(const char *name, const char *tail)
{
	struct http_event *ev = xcalloc(1, sizeof(*ev));

	atomic_init(&ev->refs, 1);
	ev->is_first = ev->is_last = true;
	if (name)
		snprintf(ev->head, sizeof(ev->head), "event: %.40s\ndata: ", name);
	ev->tail = tail;
	ev->len = ev->so_far = strlen(ev->head) + strlen(tail);
	return ev;
}

static void take_data(struct http_event *ev, struct buf *data_taken)
{
	ev->data = *data_taken;
	*data_taken = (struct buf)BUF_INIT;
	ev->len += ev->data.len;
	ev->so_far = ev->len;
}

struct http_event *http_event_take(const char *name, struct buf *data_taken)
{
	struct http_event *ev = event_new(name, "\n\n");

	take_data(ev, data_taken);
	return ev;
}

struct http_event *http_event_part(struct http_parts *p, struct buf *data_taken, bool is_last)
{
	struct http_event *ev = event_new(p->len ? NULL : p->name, is_last ? "\n\n" : "");

	take_data(ev, data_taken);
	ev->is_first = !p->len;
	ev->is_last = is_last;
	p->len += ev->len;
	ev->so_far = p->len;
	return ev;
}

/* A comment, to show that the stream lives. */
static struct http_event *heartbeat_new(void)
{
	return event_new(NULL, ":\n\n");
}

/* Copies up to `max` bytes from `from` on; returns how many. */
static size_t event_copy(const struct http_event *ev, size_t from, char *out, size_t max)
{
	const struct {
		const void *bytes;
		size_t len;
	} parts[] = {
		{ ev->head, strlen(ev->head) },
		{ ev->data.data, ev->data.len },
		{ ev->tail, strlen(ev->tail) },
	};
	size_t got = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && got < max; i++) {
		size_t n = parts[i].len > from ? parts[i].len - from : 0;

		n = n < max - got ? n : max - got;
		if (n)
			memcpy(out + got, (const char *)parts[i].bytes + from, n);
		from = parts[i].len > from ? 0 : from - parts[i].len;
		got += n;
	}
	return got;
}

void http_event_free(struct http_event *ev)
{
	if (!ev || atomic_fetch_sub(&ev->refs, 1) != 1)
		return;
	buf_release(&ev->data);
	free(ev);
}

/* ---- the backlog; the lock is held ---- */

static void backlog_add(struct http_stream *st, struct http_event *ev)
{
	struct http_unsent *u = xmalloc(sizeof(*u));
	bool waits = st->in_event && ev->is_first;

	atomic_fetch_add(&ev->refs, 1);
	u->event = ev;
	if (waits)
		STAILQ_INSERT_TAIL(&st->held, u, next);
	else
		STAILQ_INSERT_TAIL(&st->backlog, u, next);
	*(waits ? &st->held_len : &st->backlog_len) += ev->len;
	atomic_fetch_add(st->backlogs, ev->len);
	if (waits)
		return;
	st->in_event = !ev->is_last;
	if (!st->in_event) {
		STAILQ_CONCAT(&st->backlog, &st->held);
		st->backlog_len += st->held_len;
		st->held_len = 0;
	}
}

static void backlog_uncount(struct http_stream *st, size_t n)
{
	st->backlog_len -= n;
	atomic_fetch_sub(st->backlogs, n);
}

static void backlog_drop_first(struct http_stream *st)
{
	struct http_unsent *u = STAILQ_FIRST(&st->backlog);

	STAILQ_REMOVE_HEAD(&st->backlog, next);
	http_event_free(u->event);
	free(u);
	st->sent = 0;
}

static void backlog_drop(struct http_stream *st)
{
	STAILQ_CONCAT(&st->backlog, &st->held);
	st->backlog_len += st->held_len;
	st->held_len = 0;
	backlog_uncount(st, st->backlog_len);
	while (!STAILQ_EMPTY(&st->backlog))
		backlog_drop_first(st);
}

/* Moves up to `max` bytes to `out`. */
static size_t backlog_take(struct http_stream *st, char *out, size_t max)
{
	size_t got = 0;

	while (got < max && !STAILQ_EMPTY(&st->backlog)) {
		const struct http_event *ev = STAILQ_FIRST(&st->backlog)->event;
		size_t n = event_copy(ev, st->sent, out + got, max - got);

		got += n;
		st->sent += n;
		if (st->sent == ev->len)
			backlog_drop_first(st);
	}
	backlog_uncount(st, got);
	return got;
}

/* ---- streams ---- */

void stream_unref(struct http_stream *st)
{
	if (atomic_fetch_sub(&st->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&st->lock);
	STAILQ_CONCAT(&st->backlog, &st->held);
	while (!STAILQ_EMPTY(&st->backlog)) /* the server, with its sum, may be freed already */
		backlog_drop_first(st);
	free(st);
}

static void stream_release(void *arg)
{
	stream_unref(arg);
}

/* Resumes the connection: microhttpd's thread calls the reader again. The lock is held. */
static void stream_wake(struct http_stream *st)
{
	if (st->suspended && st->conn)
		MHD_resume_connection(st->conn);
	st->suspended = false;
}

/* Calls `on_closed` once. Loop thread. */
static void stream_end(struct http_stream *st)
{
	struct http_server *s = st->server;

	if (!s)
		return;
	if (st->prev)
		st->prev->next = st->next;
	else
		s->streams = st->next;
	if (st->next)
		st->next->prev = st->prev;
	st->server = NULL;
	st->on_closed(st->arg);
}

static void on_stream_gone(void *arg)
{
	stream_end(arg);
	stream_unref(arg);
}

/* Once per stream: the post takes the loop's reference. The lock is held. */
static void stream_post_end(struct http_stream *st)
{
	if (st->end_posted)
		return;
	st->end_posted = true;
	loop_post(st->loop, on_stream_gone, st);
}

/* microhttpd's thread asks for up to `max` bytes. */
static ssize_t stream_read(void *arg, uint64_t pos, char *out, size_t max)
{
	struct http_stream *st = arg;
	ssize_t n = 0;

	(void)pos;
	pthread_mutex_lock(&st->lock);
	if (st->cut) {
		n = MHD_CONTENT_READER_END_WITH_ERROR;
	} else if (st->backlog_len) {
		n = (ssize_t)backlog_take(st, out, max);
	} else if (st->ended) {
		n = MHD_CONTENT_READER_END_OF_STREAM;
	} else {
		st->suspended = true;
		MHD_suspend_connection(st->conn);
	}
	pthread_mutex_unlock(&st->lock);
	return n;
}

/* The client does not read. Shuts its socket down, since microhttpd's thread may be waiting for that. The
 * lock is held. */
static void stream_cut(struct http_stream *st)
{
	const union MHD_ConnectionInfo *info;

	st->cut = true;
	backlog_drop(st);
	info = st->conn ? MHD_get_connection_info(st->conn, MHD_CONNECTION_INFO_CONNECTION_FD)
			: NULL;
	if (info)
		shutdown(info->connect_fd, SHUT_RDWR);
	stream_wake(st);
	stream_post_end(st);
}

static size_t backlog_max(const struct http_stream *st)
{
	size_t events = BACKLOG_EVENTS * st->largest;

	return events > BACKLOG_BYTES ? events : BACKLOG_BYTES;
}

static void stream_add(struct http_stream *st, struct http_event *ev)
{
	pthread_mutex_lock(&st->lock);
	st->largest = ev->so_far > st->largest ? ev->so_far : st->largest;
	if (st->ended || st->cut || st->end_posted) {
		/* microhttpd is done with the stream: frees its reference. */
	} else if (!ev->is_first && !st->in_event) {
		/* The stream is younger than the event's begin. */
	} else if (st->backlog_len + st->held_len + ev->len > backlog_max(st)) {
		stream_cut(st);
	} else {
		backlog_add(st, ev);
		stream_wake(st);
	}
	pthread_mutex_unlock(&st->lock);
}

static size_t backlog_of(struct http_stream *st)
{
	size_t bytes;

	pthread_mutex_lock(&st->lock);
	bytes = st->backlog_len + st->held_len;
	pthread_mutex_unlock(&st->lock);
	return bytes;
}

/* While all backlogs together are too long, cuts off the stream with the longest one. */
static void check_backlogs(struct http_server *s)
{
	size_t max = BACKLOGS_EVENTS * s->largest_event;

	max = max > BACKLOGS_BYTES ? max : BACKLOGS_BYTES;
	while (atomic_load(&s->backlogs) > max) {
		struct http_stream *longest = NULL;
		size_t most = 0;

		for (struct http_stream *st = s->streams; st; st = st->next) {
			size_t bytes = backlog_of(st);

			if (bytes > most) {
				longest = st;
				most = bytes;
			}
		}
		if (!longest)
			return;
		pthread_mutex_lock(&longest->lock);
		stream_cut(longest);
		pthread_mutex_unlock(&longest->lock);
	}
}

void http_stream_send_event(struct http_stream *st, struct http_event *ev)
{
	if (!st)
		return;
	stream_add(st, ev);
	if (!st->server)
		return;
	if (ev->so_far > st->server->largest_event)
		st->server->largest_event = ev->so_far;
	check_backlogs(st->server);
}

void http_stream_send(struct http_stream *st, const char *name, const char *data)
{
	struct buf text = BUF_INIT;
	struct http_event *ev;

	buf_add_str(&text, data);
	ev = http_event_take(name, &text);
	http_stream_send_event(st, ev);
	http_event_free(ev);
}

void http_stream_end(struct http_stream *st)
{
	if (!st)
		return;
	pthread_mutex_lock(&st->lock);
	st->ended = true;
	stream_wake(st);
	stream_post_end(st);
	pthread_mutex_unlock(&st->lock);
}

void stream_completed(struct http_stream *st)
{
	pthread_mutex_lock(&st->lock);
	backlog_drop(st);
	st->conn = NULL;
	st->ended = true;
	stream_post_end(st);
	pthread_mutex_unlock(&st->lock);
}

/* The loop (until `on_closed`), the request and the response hold a reference each. */
static struct http_stream *stream_new(struct http_req *req, void (*on_closed)(void *arg), void *arg)
{
	struct http_stream *st = xcalloc(1, sizeof(*st));
	struct http_server *s = req->server;

	atomic_init(&st->refs, 3);
	pthread_mutex_init(&st->lock, NULL);
	STAILQ_INIT(&st->backlog);
	STAILQ_INIT(&st->held);
	st->on_closed = on_closed;
	st->arg = arg;
	st->server = s;
	st->loop = s->loop;
	st->backlogs = &s->backlogs;
	st->conn = req->conn;
	st->next = s->streams;
	if (s->streams)
		s->streams->prev = st;
	s->streams = st;
	return st;
}

struct http_stream *http_answer_stream(struct http_req *req, void (*on_closed)(void *arg),
				       void *arg)
{
	struct http_stream *st;
	struct MHD_Response *resp;

	if (!req->server) {
		http_set_user(req, NULL, NULL);
		req_unref(req);
		return NULL;
	}
	st = stream_new(req, on_closed, arg);
	resp = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, stream_read,
						 st, stream_release);
	req->stream = st;
	answer_unmeasured(req, "text/event-stream", resp);
	return st;
}

void streams_send_heartbeat(struct http_server *s)
{
	struct http_event *beat = heartbeat_new();

	for (struct http_stream *st = s->streams; st; st = st->next)
		stream_add(st, beat);
	http_event_free(beat);
}

void streams_end(struct http_server *s)
{
	while (s->streams) {
		http_stream_end(s->streams);
		stream_end(s->streams);
	}
}
