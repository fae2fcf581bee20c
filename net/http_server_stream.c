/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: a bounded backlog between the loop and microhttpd's thread. */
#include "net/http_server_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define BACKLOG_BYTES ((size_t)1 << 20)
#define BACKLOG_EVENTS \
	4 /* of the largest size: a fleet's documents may be larger than any fixed limit */
#define BACKLOGS_BYTES	   ((size_t)16 << 20) /* of all streams; or BACKLOGS_EVENTS */
#define BACKLOGS_EVENTS	   16
#define STREAM_BLOCK_BYTES 16384

/* The backlog gets shorter by n bytes. The lock is held. */
static void uncount(struct http_stream *st, size_t n)
{
	atomic_fetch_sub(st->backlogs, n);
}

void stream_unref(struct http_stream *st)
{
	if (atomic_fetch_sub(&st->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&st->lock);
	buf_release(&st->backlog);
	free(st);
}

static void stream_release(void *arg)
{
	stream_unref(arg);
}

/* Makes microhttpd's thread call the reader again. The lock is held. */
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
	size_t left;
	ssize_t n = 0;

	(void)pos;
	pthread_mutex_lock(&st->lock);
	left = st->backlog.len - st->sent;
	if (st->cut) {
		n = MHD_CONTENT_READER_END_WITH_ERROR;
	} else if (left) {
		n = (ssize_t)(left < max ? left : max);
		memcpy(out, st->backlog.data + st->sent, (size_t)n);
		st->sent += (size_t)n;
		uncount(st, (size_t)n);
		if ((size_t)n == left) {
			buf_reset(&st->backlog);
			st->sent = 0;
		}
	} else if (st->ended) {
		n = MHD_CONTENT_READER_END_OF_STREAM;
	} else {
		st->suspended = true;
		MHD_suspend_connection(st->conn);
	}
	pthread_mutex_unlock(&st->lock);
	return n;
}

/* The lock is held. */
static void drop_backlog(struct http_stream *st)
{
	uncount(st, st->backlog.len - st->sent);
	buf_release(&st->backlog);
	st->sent = 0;
}

/* The client does not read. microhttpd's thread may be waiting for its socket, which is shut down
 * therefore. The lock is held. */
static void stream_cut(struct http_stream *st)
{
	const union MHD_ConnectionInfo *info;

	st->cut = true;
	drop_backlog(st);
	info = st->conn ? MHD_get_connection_info(st->conn, MHD_CONNECTION_INFO_CONNECTION_FD)
			: NULL;
	if (info)
		shutdown(info->connect_fd, SHUT_RDWR);
	stream_wake(st);
	stream_post_end(st);
}

/* Drops the bytes that were sent once they are half of the memory. */
static void backlog_compact(struct http_stream *st)
{
	if (st->sent < st->backlog.len / 2 || !st->sent)
		return;
	st->backlog.len -= st->sent;
	memmove(st->backlog.data, st->backlog.data + st->sent, st->backlog.len);
	st->sent = 0;
}

static size_t backlog_max(const struct http_stream *st)
{
	size_t events = BACKLOG_EVENTS * st->largest;

	return events > BACKLOG_BYTES ? events : BACKLOG_BYTES;
}

static void stream_add(struct http_stream *st, const struct buf *bytes)
{
	pthread_mutex_lock(&st->lock);
	st->largest = bytes->len > st->largest ? bytes->len : st->largest;
	if (st->ended || st->cut || st->end_posted) {
		/* microhttpd is done with the stream: frees its reference. */
	} else if (st->backlog.len - st->sent + bytes->len > backlog_max(st)) {
		stream_cut(st);
	} else {
		backlog_compact(st);
		buf_add(&st->backlog, bytes->data, bytes->len);
		atomic_fetch_add(st->backlogs, bytes->len);
		stream_wake(st);
	}
	pthread_mutex_unlock(&st->lock);
}

static size_t backlog_of(struct http_stream *st)
{
	size_t bytes;

	pthread_mutex_lock(&st->lock);
	bytes = st->backlog.len - st->sent;
	pthread_mutex_unlock(&st->lock);
	return bytes;
}

/* Cuts off the streams with the longest backlogs, until those of all are within their sum. */
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

void http_stream_send(struct http_stream *st, const char *event, const char *data)
{
	struct buf b = BUF_INIT;

	if (!st)
		return;
	buf_addf(&b, "event: %s\ndata: %s\n\n", event, data);
	stream_add(st, &b);
	if (st->server) {
		st->server->largest_event = b.len > st->server->largest_event
						    ? b.len
						    : st->server->largest_event;
		check_backlogs(st->server);
	}
	buf_release(&b);
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
	drop_backlog(st);
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
		req_unref(req);
		return NULL;
	}
	st = stream_new(req, on_closed, arg);
	resp = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, stream_read,
						 st, stream_release);
	response_finish(resp, "text/event-stream");
	MHD_add_response_header(resp, "Cache-Control", "no-store");
	req->stream = st;
	req_answer(req, 200, resp);
	return st;
}

void streams_send_heartbeat(struct http_server *s)
{
	static const struct buf beat = { (uint8_t *)(uintptr_t) ":\n\n", 3, 0 };

	for (struct http_stream *st = s->streams; st; st = st->next)
		stream_add(st, &beat);
}

void streams_end(struct http_server *s)
{
	while (s->streams) {
		http_stream_end(s->streams);
		stream_end(s->streams);
	}
}
