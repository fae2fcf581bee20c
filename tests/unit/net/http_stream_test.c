/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: clients that listen, that leave, that do not read. */
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/unit/net/http_fixture.h"

#define N_EVENTS    200
#define LARGE_BYTES ((size_t)3 << 20)

struct state {
	struct fixture f;
	struct http_stream *stream;
	bool streaming, gone;
	int n_gone;
};

static void on_gone(void *arg)
{
	struct state *s = arg;

	s->stream = NULL;
	s->gone = true;
	s->n_gone++;
}

static void on_events(struct state *s, struct http_req *req, bool finite)
{
	char data[32];

	s->gone = false;
	s->stream = http_answer_stream(req, on_gone, s);
	s->streaming = true;
	for (int i = 0; finite && i < N_EVENTS; i++) {
		snprintf(data, sizeof(data), "{\"n\": %d}", i);
		http_stream_send(s->stream, "tick", data);
	}
	if (finite)
		http_stream_end(s->stream);
	else
		http_stream_send(s->stream, "first", "{}");
}

static void send_part(struct state *s, struct http_parts *parts, const char *text, bool is_last)
{
	struct buf data = BUF_INIT;
	struct http_event *ev;

	buf_add_str(&data, text);
	ev = http_event_part(parts, &data, is_last);
	http_stream_send_event(s->stream, ev);
	http_event_free(ev);
}

/* The first event comes in parts; the second, which is sent meanwhile, waits for its end. */
static void on_parts(struct state *s, struct http_req *req)
{
	struct http_parts parts = { .name = "tick" }, old = { .name = "tick", .len = 9 };

	s->gone = false;
	s->stream = http_answer_stream(req, on_gone, s);
	send_part(s, &old, "of an event that began before the stream", false);
	send_part(s, &parts, "{\"n\"", false);
	http_stream_send(s->stream, "tick", "{\"n\": 1}");
	send_part(s, &parts, ": ", false);
	send_part(s, &parts, "0}", true);
	send_part(s, &old, "its end", true);
	http_stream_send(s->stream, "tick", "{\"n\": 2}");
	http_stream_end(s->stream);
}

static void handle(struct http_req *req, void *arg)
{
	const char *path = http_path(req);

	if (!strcmp(path, "/events"))
		on_events(arg, req, true);
	else if (!strcmp(path, "/parts"))
		on_parts(arg, req);
	else if (!strcmp(path, "/forever"))
		on_events(arg, req, false);
	else
		http_answer_error(req, 404, "no %s", path);
}

struct listen_job {
	struct http_call call;
	char url[80];
	int n, rc, status;
	int stop_after;
	struct err e;
	bool done;
};

static int on_event(void *arg, const char *event, const char *data)
{
	struct listen_job *l = arg;
	char want[32];

	snprintf(want, sizeof(want), "{\"n\": %d}", l->n);
	CHECK_STR(event, "tick");
	CHECK_STR(data, want);
	return ++l->n == l->stop_after;
}

static void run_listen(void *arg)
{
	struct listen_job *l = arg;
	struct buf answer = BUF_INIT;

	l->rc = http_events(&l->call, &l->status, &answer, on_event, l, &l->e);
	buf_release(&answer);
}

static void end_listen(void *arg)
{
	struct listen_job *l = arg;

	l->done = true;
}

static void listen_to(struct state *s, struct listen_job *l, const char *path)
{
	snprintf(l->url, sizeof(l->url), "http://127.0.0.1:%d%s", s->f.port, path);
	l->call.url = l->url;
	loop_work(s->f.loop, run_listen, end_listen, l);
	fixture_wait(&s->f, &l->done);
}

static void test_events(struct state *s)
{
	struct listen_job all = { .stop_after = -1 };
	struct listen_job some = { .stop_after = 50 };
	struct listen_job parts = { .stop_after = -1 };
	struct listen_job none = { 0 };

	listen_to(s, &all, "/events");
	CHECK_EQ(all.rc, ERR_CLOSED); /* the server ended it */
	CHECK_EQ(all.n, N_EVENTS);
	fixture_wait(&s->f, &s->gone);
	listen_to(s, &some, "/events");
	CHECK_OK(some.rc, some.e);
	CHECK_EQ(some.status, 200);
	CHECK_EQ(some.n, 50);
	fixture_wait(&s->f, &s->gone);
	CHECK_EQ(s->n_gone, 2);
	listen_to(s, &parts, "/parts");
	CHECK_EQ(parts.rc, ERR_CLOSED);
	CHECK_EQ(parts.n, 3);
	fixture_wait(&s->f, &s->gone);
	listen_to(s, &none, "/nowhere");
	CHECK_OK(none.rc, none.e);
	CHECK_EQ(none.status, 404);
	CHECK_EQ(none.n, 0);
}

/* Opens a stream that does not end by itself, with a bare socket. */
static int open_forever(struct state *s)
{
	int fd;

	s->streaming = s->gone = false;
	fd = raw_open(&s->f, "GET /forever HTTP/1.1\r\nHost: x\r\n\r\n");
	fixture_wait(&s->f, &s->streaming);
	return fd;
}

/* Nothing comes after the headers that a client would take for the begin of the next answer. */
static void test_head(struct state *s)
{
	struct buf got = BUF_INIT;
	int fd;

	s->streaming = s->gone = false;
	fd = raw_open(&s->f, "HEAD /forever HTTP/1.1\r\nHost: x\r\n\r\n");
	fixture_wait(&s->f, &s->streaming);
	CHECK(!raw_read(fd, "no such text", &got));
	CHECK_STR(strstr(buf_str(&got), "\r\n\r\n"), "\r\n\r\n");
	fixture_wait(&s->f, &s->gone);
	close(fd);
	buf_release(&got);
}

static void test_client_leaves(struct state *s)
{
	struct buf got = BUF_INIT;
	int fd = open_forever(s);

	CHECK(raw_read(fd, "event: first\ndata: {}\n\n", &got));
	close(fd);
	for (int i = 0; i < 3000 && !s->gone; i++) {
		http_stream_send(s->stream, "tick", "{}");
		loop_turn(s->f.loop, 10);
	}
	CHECK(s->gone);
	buf_release(&got);
}

static void test_client_does_not_read(struct state *s)
{
	char *data = xcalloc(1, 65536);
	int fd = open_forever(s);
	int before = s->n_gone;

	memset(data, 'x', 65535);
	for (int i = 0; i < 3000 && !s->gone; i++) {
		http_stream_send(s->stream, "tick", data);
		loop_turn(s->f.loop, 0);
	}
	CHECK(s->gone);
	CHECK_EQ(s->n_gone, before + 1);
	close(fd);
	free(data);
}

/* One document of a large fleet passes any fixed limit: who reads it gets it, and the one after it. */
static void test_large_events(struct state *s)
{
	struct buf got = BUF_INIT;
	char *data = xcalloc(1, LARGE_BYTES + 1);
	int fd = open_forever(s);

	memset(data, 'x', LARGE_BYTES);
	http_stream_send(s->stream, "large", data);
	http_stream_send(s->stream, "large", data);
	http_stream_send(s->stream, "small", "{}");
	CHECK(raw_read(fd, "event: small\ndata: {}\n\n", &got));
	CHECK(got.len > 2 * LARGE_BYTES);
	close(fd);
	http_stream_end(s->stream);
	fixture_wait(&s->f, &s->gone);
	buf_release(&got);
	free(data);
}

/* Events made one at a time, each read before the next: suspend and resume by turns. */
static void test_one_by_one(struct state *s)
{
	struct buf got = BUF_INIT;
	char text[64], number[16];
	int fd = open_forever(s);

	for (int i = 0; i < 300; i++) {
		snprintf(number, sizeof(number), "%d", i);
		snprintf(text, sizeof(text), "event: tick\ndata: %d\n\n", i);
		http_stream_send(s->stream, "tick", number);
		buf_reset(&got);
		CHECK(raw_read(fd, text, &got));
	}
	close(fd);
	http_stream_end(s->stream);
	fixture_wait(&s->f, &s->gone);
	buf_release(&got);
}

int main(void)
{
	struct state s = { 0 };

	fixture_start(&s.f, NULL, handle, &s);
	test_events(&s);
	test_head(&s);
	test_client_leaves(&s);
	test_client_does_not_read(&s);
	test_one_by_one(&s);
	test_large_events(&s);
	fixture_stop(&s.f);
	return 0;
}
