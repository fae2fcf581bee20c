/* SPDX-License-Identifier: Apache-2.0 */
/* File answers whose bytes come in pieces. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/http_server.h"
#include "tests/lib/check.h"
#include "tests/unit/net/http_fixture.h"

#define FILE_BYTES ((uint64_t)20 << 20)

/* One answer under way; the handler below makes it. */
struct answer {
	struct state *s;
	struct http_body *body;
	uint64_t at;
};

struct state {
	struct fixture f;
	uint64_t fail_at; /* no byte from there on; 0 = all */
	size_t n_closed, n_asked, most; /* most bytes asked for at once */
	uint64_t given;
	bool closed, begun;
};

static uint8_t byte_at(uint64_t i)
{
	return (uint8_t)(i % 251);
}

static void give(struct answer *a, size_t bytes)
{
	struct buf piece = BUF_INIT;

	buf_reserve_all(&piece, bytes);
	for (size_t i = 0; i < bytes; i++)
		piece.data[i] = byte_at(a->at + i);
	piece.len = bytes;
	a->at += bytes;
	a->s->given += bytes;
	http_body_add(a->body, &piece);
	CHECK_EQ(piece.len, 0);
	buf_release(&piece);
	http_body_pause(a->body);
}

static void on_room(void *arg, size_t bytes)
{
	struct answer *a = arg;
	struct state *s = a->s;

	s->n_asked++;
	s->most = bytes > s->most ? bytes : s->most;
	if (s->fail_at && a->at + bytes > s->fail_at)
		http_body_fail(a->body);
	else
		give(a, bytes);
}

static void on_closed(void *arg)
{
	struct answer *a = arg;

	a->s->n_closed++;
	a->s->closed = true;
	free(a);
}

/* Somewhat more than was asked for, to the end of the file. */
static void on_room_of_pieces(void *arg, size_t bytes)
{
	struct answer *a = arg;
	size_t left = (size_t)(FILE_BYTES - a->at);
	struct buf piece = BUF_INIT;

	bytes = bytes + 7 < left ? bytes + 7 : left;
	buf_reserve_all(&piece, bytes);
	for (; piece.len < bytes; piece.len++)
		piece.data[piece.len] = byte_at(a->at++);
	http_body_add(a->body, &piece);
	buf_release(&piece);
	if (a->at == FILE_BYTES)
		http_body_end(a->body);
	else
		http_body_pause(a->body);
}

static void answer_pieces(struct answer *a, struct http_req *req)
{
	static const struct http_body_events events = { on_room_of_pieces, on_closed };

	a->body = http_answer_pieces(req, "x/y", &events, a);
}

static void handle(struct http_req *req, void *arg)
{
	static const struct http_body_events events = { on_room, on_closed };
	struct http_file file = { .size = FILE_BYTES, .type = "x/y", .tag = "one" };
	struct answer *a = xcalloc(1, sizeof(*a));
	uint64_t len;

	a->s = arg;
	if (!strcmp(http_path(req), "/pieces")) {
		answer_pieces(a, req);
		return;
	}
	if (!strcmp(http_path(req), "/empty"))
		file.size = 0;
	if (!strcmp(http_path(req), "/odd"))
		file.tag = "a\"b";
	http_file_part(req, &file, &a->at, &len);
	a->body = http_answer_body(req, &file, &events, a);
	a->s->begun = true;
	if (!a->body)
		free(a);
}

static void start(struct state *s)
{
	*s = (struct state){ 0 };
	fixture_start(&s->f, NULL, handle, s);
}

/* The length is not known before the end. */
static void test_pieces(struct state *s)
{
	struct job j = { 0 };

	s->closed = false;
	CHECK_EQ(job_run(&s->f, &j, "GET", "/pieces"), 200);
	CHECK_EQ(j.answer.len, FILE_BYTES);
	for (uint64_t i = 0; i < FILE_BYTES; i++)
		CHECK(j.answer.data[i] == byte_at(i));
	fixture_wait(&s->f, &s->closed);
	job_end(&j);
}

static void check_part(struct state *s, const char *range, int status, uint64_t first, uint64_t len)
{
	struct job j = { .call.range = range };

	s->closed = false;
	CHECK_EQ(job_run(&s->f, &j, "GET", "/file"), status);
	CHECK_EQ(j.answer.len, len);
	for (uint64_t i = 0; i < len; i++)
		CHECK(j.answer.data[i] == byte_at(first + i));
	fixture_wait(&s->f, &s->closed);
	job_end(&j);
}

static void test_parts(struct state *s)
{
	check_part(s, NULL, 200, 0, FILE_BYTES);
	CHECK(s->most <= HTTP_PIECE_MAX);
	check_part(s, "0-0", 206, 0, 1);
	check_part(s, "5000000-5000099", 206, 5000000, 100);
	check_part(s, "-3", 206, FILE_BYTES - 3, 3);
	check_part(s, "1-0", 200, 0, FILE_BYTES);
}

/* One exchange of text on a connection that closes; blocks a worker alone. */
struct exchange {
	const struct fixture *f;
	const char *head;
	struct buf reply;
	bool done;
};

static void run_exchange(void *arg)
{
	struct exchange *x = arg;
	char *text = xasprintf("%s\r\nHost: x\r\nConnection: close\r\n\r\n", x->head);
	int fd = raw_open(x->f, text);

	raw_read(fd, NULL, &x->reply);
	close(fd);
	free(text);
}

static void done_exchange(void *arg)
{
	((struct exchange *)arg)->done = true;
}

static void check_reply(struct state *s, const char *head, const char *begin, const char *has,
			size_t len)
{
	struct exchange x = { .f = &s->f, .head = head };
	const char *end;

	loop_work(s->f.loop, run_exchange, done_exchange, &x);
	fixture_wait(&s->f, &x.done);
	end = memmem(x.reply.data, x.reply.len, "\r\n\r\n", 4);
	CHECK(end);
	CHECK(!strncmp(buf_str(&x.reply), begin, strlen(begin)));
	CHECK(!has || memmem(x.reply.data, x.reply.len, has, strlen(has)));
	CHECK_EQ(x.reply.len - (size_t)(end + 4 - (char *)x.reply.data), len);
	buf_release(&x.reply);
}

static void test_heads(struct state *s)
{
	check_reply(s, "HEAD /file HTTP/1.1", "HTTP/1.1 200", "Content-Length: 20971520\r\n", 0);
	check_reply(s, "HEAD /file HTTP/1.1", "HTTP/1.1 200", "Accept-Ranges: bytes\r\n", 0);
	check_reply(s, "HEAD /pieces HTTP/1.1", "HTTP/1.1 200", "Content-Type: x/y\r\n", 0);
	check_reply(s, "GET /empty HTTP/1.1", "HTTP/1.1 200", "Content-Length: 0\r\n", 0);
	check_reply(s, "GET /file HTTP/1.1\r\nRange: bytes=0-9", "HTTP/1.1 206",
		    "ETag: \"one\"\r\n", 10);
	check_reply(s, "GET /file HTTP/1.1\r\nRange: bytes=0-9", "HTTP/1.1 206",
		    "Content-Range: bytes 0-9/20971520\r\n", 10);
	check_reply(s, "GET /file HTTP/1.1\r\nIf-Range: \"one\"\r\nRange: bytes=0-9",
		    "HTTP/1.1 206", NULL, 10);
	check_reply(s, "GET /file HTTP/1.1\r\nIf-Range: \"two\"\r\nRange: bytes=0-9",
		    "HTTP/1.1 200", NULL, FILE_BYTES);
	check_reply(s, "GET /odd HTTP/1.1\r\nIf-Range: \"a\"b\"\r\nRange: bytes=0-9",
		    "HTTP/1.1 200", NULL, FILE_BYTES);
}

/* The client sees that bytes are missing. */
static void test_failure(struct state *s)
{
	struct job j = { 0 };

	s->fail_at = FILE_BYTES / 2;
	s->closed = false;
	job_start(&s->f, &j, "GET", "/file");
	fixture_wait(&s->f, &j.done);
	CHECK_EQ(j.rc, ERR_CLOSED);
	fixture_wait(&s->f, &s->closed);
	s->fail_at = 0;
	job_end(&j);
}

/* A client that does not read: two pieces, and what the kernel takes. Then it leaves. */
static void test_slow_reader(void)
{
	struct state s;
	uint64_t given;
	int fd;

	start(&s);
	fd = raw_open(&s.f, "GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
	fixture_wait(&s.f, &s.begun);
	do {
		given = s.given;
		for (int i = 0; i < 5; i++)
			loop_turn(s.f.loop, 20);
	} while (s.given > given);
	CHECK(s.given < FILE_BYTES);
	CHECK(!s.closed);
	close(fd);
	fixture_wait(&s.f, &s.closed);
	CHECK_EQ(s.n_closed, 1);
	fixture_stop(&s.f);
}

/* The server ends in the middle of an answer, and before a piece that was asked for has come. */
static void test_free_in_between(void)
{
	struct state s;
	int fd;

	start(&s);
	fd = raw_open(&s.f, "GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
	fixture_wait(&s.f, &s.begun);
	http_server_free(s.f.server);
	s.f.server = NULL;
	CHECK_EQ(s.n_closed, 1);
	close(fd);
	fixture_stop(&s.f);
}

int main(void)
{
	struct state s;

	start(&s);
	test_pieces(&s);
	test_parts(&s);
	test_heads(&s);
	test_failure(&s);
	fixture_stop(&s.f);
	test_slow_reader();
	test_free_in_between();
	return 0;
}
