/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"
#include "tests/lib/certs.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"
#include "tests/unit/net/http_fixture.h"

#define FILE_BYTES 100000
#define N_PARALLEL 64

/* What the handler below remembers. */
struct state {
	struct fixture f;
	struct http_req *held[8];
	int n_held;
	bool all_held; /* n_held == want_held */
	int want_held;
	struct http_stream *stream;
	bool streaming, gone;
	int n_gone;
	int file; /* FILE_BYTES of a pattern */
};

struct late {
	struct http_req *req;
};

static void answer_late(void *arg)
{
	struct late *late = arg;

	http_answer(late->req, 200, "text/plain", "late", 4);
	free(late);
}

static void on_gone(void *arg)
{
	struct state *s = arg;

	s->stream = NULL;
	s->gone = true;
	s->n_gone++;
}

static void on_echo(struct http_req *req)
{
	size_t len;
	const void *body = http_body(req, &len);

	http_answer(req, 200, "application/json", body, len);
}

static void on_hello(struct http_req *req)
{
	const char *who = http_query(req, "who");
	const char *agent = http_header(req, "x-absent");
	char *text = xasprintf("hello %s from %s, %s%s", who ? who : "?", http_peer(req),
			       http_method(req), agent ? agent : "");

	http_answer(req, 200, "text/plain", text, strlen(text));
	free(text);
}

static void on_hold(struct state *s, struct http_req *req)
{
	s->held[s->n_held++] = req;
	s->all_held = s->n_held == s->want_held;
}

static void on_later(struct state *s, struct http_req *req)
{
	struct late *late = xmalloc(sizeof(*late));

	late->req = req;
	/* Not a worker's job: those may all be taken by clients. */
	loop_post(s->f.loop, answer_late, late);
}

static void on_forever(struct state *s, struct http_req *req)
{
	s->stream = http_answer_stream(req, on_gone, s);
	s->streaming = true;
}

static const struct http_file the_file = { .size = FILE_BYTES,
					   .type = "application/octet-stream",
					   .download = "a \"b\".pb",
					   .tag = "v-1" };
static const struct http_file no_bytes = { .type = "text/plain" };

static void handle(struct http_req *req, void *arg)
{
	struct state *s = arg;
	const char *path = http_path(req);

	if (!strcmp(path, "/hello"))
		on_hello(req);
	else if (!strcmp(path, "/echo"))
		on_echo(req);
	else if (!strcmp(path, "/later"))
		on_later(s, req);
	else if (!strcmp(path, "/hold"))
		on_hold(s, req);
	else if (!strcmp(path, "/file"))
		http_answer_fd(req, dup(s->file), &the_file);
	else if (!strcmp(path, "/empty"))
		http_answer_fd(req, open("/dev/null", O_RDONLY), &no_bytes);
	else if (!strcmp(path, "/forever"))
		on_forever(s, req);
	else
		http_answer_error(req, 404, "no \"%s\" here\n", path);
}

static char file_byte(uint64_t i)
{
	return (char)('a' + i % 23);
}

static int make_file(void)
{
	char path[] = "/tmp/tutti-http-XXXXXX";
	int fd = mkstemp(path);
	char bytes[FILE_BYTES];

	CHECK(fd >= 0);
	unlink(path);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = file_byte(i);
	CHECK_EQ(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	return fd;
}

static void start(struct state *s)
{
	*s = (struct state){ .file = make_file() };
	fixture_start(&s->f, NULL, handle, s);
}

static void stop(struct state *s)
{
	fixture_stop(&s->f);
	close(s->file);
}

/* ---- plain requests ---- */

static void test_get(struct state *s)
{
	struct job j = { 0 };

	CHECK_EQ(job_run(&s->f, &j, "GET", "/hello?x=1&who=b%26b+c&who=second"), 200);
	CHECK_STR(buf_str(&j.answer), "hello b&b c from 127.0.0.1, GET");
	CHECK_EQ(job_run(&s->f, &j, "GET", "/he%6clo"), 200);
	CHECK_STR(buf_str(&j.answer), "hello ? from 127.0.0.1, GET");
	CHECK_EQ(job_run(&s->f, &j, "BREW", "/hello"), 200);
	CHECK_STR(buf_str(&j.answer), "hello ? from 127.0.0.1, BREW");
	CHECK_EQ(job_run(&s->f, &j, "GET", "/later"), 200);
	CHECK_STR(buf_str(&j.answer), "late");
	job_end(&j);
}

static void test_errors(struct state *s)
{
	struct job j = { 0 };

	CHECK_EQ(job_run(&s->f, &j, "GET", "/no%22where"), 404);
	CHECK_STR(buf_str(&j.answer), "{\"error\": \"no \\\"/no\\\"where\\\" here\\u000a\"}\n");
	CHECK_EQ(job_run(&s->f, &j, "GET", "/hello?a=%zz"), 400);
	CHECK_EQ(job_run(&s->f, &j, "GET", "/hello?a=%00"), 400);
	CHECK_EQ(job_run(&s->f, &j, "GET", "/he%00llo"), 400);
	CHECK_EQ(job_run(&s->f, &j, "GET", "/hello%2"), 400);
	job_end(&j);
}

static void test_long_query(struct state *s)
{
	struct buf text = BUF_INIT;
	struct buf reply = BUF_INIT;
	int fd;

	buf_add_str(&text, "GET /hello?");
	while (text.len < LIMIT_HTTP_QUERY_BYTES + 20)
		buf_add_str(&text, "aaaaaaaa");
	buf_add_str(&text, " HTTP/1.1\r\nHost: x\r\n\r\n");
	fd = raw_open(&s->f, buf_str(&text));
	CHECK(raw_read(fd, "\r\n\r\n", &reply));
	CHECK(!strncmp(buf_str(&reply), "HTTP/1.1 414 ", 13));
	close(fd);
	buf_release(&text);
	buf_release(&reply);
}

static void test_keys_of_query(struct state *s)
{
	struct buf path = BUF_INIT;
	struct job j = { 0 };

	buf_add_str(&path, "/hello?who=x&");
	for (int i = 1; i < LIMIT_HTTP_QUERY_KEYS; i++)
		buf_add_str(&path, "&k");
	CHECK_EQ(job_run(&s->f, &j, "GET", buf_str(&path)), 200);
	buf_add_str(&path, "&k");
	CHECK_EQ(job_run(&s->f, &j, "GET", buf_str(&path)), 414);
	CHECK(strstr(buf_str(&j.answer), "more than 64 keys in the query"));
	job_end(&j);
	buf_release(&path);
}

static void test_post(struct state *s)
{
	struct job j = { 0 };
	size_t len = LIMIT_HTTP_BODY_BYTES;
	char *body = xcalloc(1, 8 * len);

	memset(body, 'x', 8 * len);
	j.call.body = body;
	j.call.body_len = len;
	CHECK_EQ(job_run(&s->f, &j, "POST", "/echo"), 200);
	CHECK_EQ(j.answer.len, len);
	CHECK(!memcmp(j.answer.data, body, len));
	j.call.body_len = len + 1;
	CHECK_EQ(job_run(&s->f, &j, "POST", "/echo"), 413);
	j.call.body_len = 8 * len;
	CHECK_EQ(job_run(&s->f, &j, "POST", "/echo"), 413);
	j.call.body_len = 0;
	CHECK_EQ(job_run(&s->f, &j, "POST", "/echo"), 200);
	CHECK_EQ(j.answer.len, 0);
	job_end(&j);
	free(body);
}

/* The length is not given, and the body grows too long. */
static void test_chunked_post(struct state *s)
{
	static const char head[] =
		"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
	struct buf text = BUF_INIT;
	struct buf reply = BUF_INIT;
	char *zeros = xcalloc(1, LIMIT_HTTP_BODY_BYTES);
	int fd;

	memset(zeros, '0', LIMIT_HTTP_BODY_BYTES);
	buf_add_str(&text, head);
	buf_addf(&text, "%x\r\n", LIMIT_HTTP_BODY_BYTES);
	buf_add(&text, zeros, LIMIT_HTTP_BODY_BYTES);
	buf_add_str(&text, "\r\n1\r\nx\r\n0\r\n\r\n");
	fd = raw_open(&s->f, buf_str(&text));
	CHECK(raw_read(fd, "\r\n\r\n", &reply));
	CHECK(!strncmp(buf_str(&reply), "HTTP/1.1 413 ", 13));
	close(fd);
	free(zeros);
	buf_release(&text);
	buf_release(&reply);
}

static void test_parallel(struct state *s)
{
	struct job *jobs = xcalloc(N_PARALLEL, sizeof(*jobs));
	static const char *const paths[] = { "/hello", "/later", "/file", "/nowhere" };
	static const int want[] = { 200, 200, 200, 404 };

	for (int i = 0; i < N_PARALLEL; i++)
		job_start(&s->f, &jobs[i], "GET", paths[i % 4]);
	for (int i = 0; i < N_PARALLEL; i++) {
		fixture_wait(&s->f, &jobs[i].done);
		CHECK_OK(jobs[i].rc, jobs[i].e);
		CHECK_EQ(jobs[i].status, want[i % 4]);
		job_end(&jobs[i]);
	}
	free(jobs);
}

/* ---- files ---- */

static void check_range(struct state *s, const char *range, int status, uint64_t first,
			uint64_t len)
{
	struct job j = { .call.range = range };

	CHECK_EQ(job_run(&s->f, &j, "GET", "/file"), status);
	if (status != 416) {
		CHECK_EQ(j.answer.len, len);
		for (uint64_t i = 0; i < len; i++)
			CHECK(j.answer.data[i] == (uint8_t)file_byte(first + i));
	}
	job_end(&j);
}

static void test_ranges(struct state *s)
{
	check_range(s, NULL, 200, 0, FILE_BYTES);
	check_range(s, "0-0", 206, 0, 1);
	check_range(s, "10-29", 206, 10, 20);
	check_range(s, "99990-", 206, 99990, 10);
	check_range(s, "99990-200000", 206, 99990, 10);
	check_range(s, "-7", 206, FILE_BYTES - 7, 7);
	check_range(s, "-200000", 206, 0, FILE_BYTES);
	check_range(s, "100000-", 416, 0, 0);
	check_range(s, "-0", 416, 0, 0);
	check_range(s, "5-3", 200, 0, FILE_BYTES);
	check_range(s, "0-1,5-6", 200, 0, FILE_BYTES);
	check_range(s, "x-1", 200, 0, FILE_BYTES);
	check_range(s, "1-99999999999999999999", 200, 0, FILE_BYTES);
}

struct raw_job {
	const struct fixture *f;
	const char *text;
	struct buf reply;
	bool done;
};

static void run_raw(void *arg)
{
	struct raw_job *r = arg;
	int fd = raw_open(r->f, r->text);

	raw_read(fd, NULL, &r->reply);
	close(fd);
}

static void end_raw(void *arg)
{
	struct raw_job *r = arg;

	r->done = true;
}

/* The whole reply to `text`, which asks for the connection to be closed. */
static void exchange(struct state *s, const char *text, struct buf *reply)
{
	struct raw_job r = { .f = &s->f, .text = text };

	loop_work(s->f.loop, run_raw, end_raw, &r);
	fixture_wait(&s->f, &r.done);
	*reply = r.reply;
}

static void test_headers(struct state *s)
{
	struct buf r;

	exchange(s,
		 "GET /file HTTP/1.1\r\nHost: x\r\nRange: bytes=1-3\r\nConnection: close\r\n\r\n",
		 &r);
	CHECK(strstr(buf_str(&r), "HTTP/1.1 206 "));
	CHECK(strstr(buf_str(&r), "Content-Range: bytes 1-3/100000\r\n"));
	CHECK(strstr(buf_str(&r), "Content-Length: 3\r\n"));
	CHECK(strstr(buf_str(&r), "Content-Disposition: attachment; filename=\"a__b_.pb\"\r\n"));
	CHECK(strstr(buf_str(&r), "X-Content-Type-Options: nosniff\r\n"));
	CHECK(strstr(buf_str(&r), "X-Frame-Options: DENY\r\n"));
	CHECK(strstr(buf_str(&r), "Referrer-Policy: same-origin\r\n"));
	CHECK(strstr(buf_str(&r), "Content-Security-Policy: default-src 'none'; "
				  "frame-ancestors 'none'\r\n"));
	CHECK(strstr(buf_str(&r), "\r\n\r\nbcd"));
	buf_release(&r);
	exchange(s,
		 "GET /file HTTP/1.1\r\nHost: x\r\nRange: bytes=100000-\r\nConnection: "
		 "close\r\n\r\n",
		 &r);
	CHECK(strstr(buf_str(&r), "Content-Range: bytes */100000\r\n"));
	buf_release(&r);
	exchange(s, "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", &r);
	CHECK(strstr(buf_str(&r), "Cache-Control: no-store\r\n"));
	buf_release(&r);
}

/* A proxy in front might see another end of the body than this server, and let a second request pass
 * unseen. Each is refused with 400 and the connection ends: the second request gets no answer. */
static void test_smuggling(struct state *s)
{
	static const char *const bad[] = {
		"Host: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"Host: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
		"Host: x\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
		"Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
		"chunked\r\n\r\n0\r\n\r\n",
		"Host: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"Host: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"Host: x\r\nContent-Length : 5\r\n\r\n",
		"Host: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n",
		"Content-Length: 0\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *text = xasprintf(
			"POST /echo HTTP/1.1\r\n%s"
			"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			bad[i]);
		struct buf r;

		exchange(s, text, &r);
		if (strncmp(buf_str(&r), "HTTP/1.1 400 ", 13) || strstr(buf_str(&r), "hello"))
			fprintf(stderr, "%s\n%s\n", text, buf_str(&r));
		CHECK(!strncmp(buf_str(&r), "HTTP/1.1 400 ", 13));
		CHECK(!strstr(buf_str(&r), "hello"));
		buf_release(&r);
		free(text);
	}
}

static void test_head(struct state *s)
{
	struct job j = { 0 };
	struct buf r;

	CHECK_EQ(job_run(&s->f, &j, "HEAD", "/file"), 200);
	CHECK_EQ(j.answer.len, 0);
	CHECK_EQ(job_run(&s->f, &j, "GET", "/empty"), 200);
	CHECK_EQ(j.answer.len, 0);
	j.call.range = "0-";
	CHECK_EQ(job_run(&s->f, &j, "GET", "/empty"), 416);
	job_end(&j);
	exchange(s, "HEAD /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", &r);
	CHECK(strstr(buf_str(&r), "Content-Length: 100000\r\n"));
	CHECK_STR(strstr(buf_str(&r), "\r\n\r\n"), "\r\n\r\n");
	buf_release(&r);
}

/* ---- the end, and bad company ---- */

static void test_garbage(struct state *s)
{
	static const char *const bad[] = {
		"\x16\x03\x01\x02\x01\x01\r\n\r\n",
		"GET\r\n\r\n",
		"GET /hello HTTP/9.9\r\n\r\n",
		"GET /hello HTTP/1.1\r\nno colon here\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	};
	struct job j = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct buf reply = BUF_INIT;
		int fd = raw_open(&s->f, bad[i]);

		shutdown(fd, SHUT_WR);
		while (!raw_read(fd, "\n", &reply) && reply.len)
			;
		close(fd);
		buf_release(&reply);
	}
	CHECK_EQ(job_run(&s->f, &j, "GET", "/hello"), 200);
	job_end(&j);
}

/* A client that left while the loop held its request: answering is still fine. */
static void test_leaves_while_held(struct state *s)
{
	int fd;

	s->n_held = 0;
	s->want_held = 1;
	s->all_held = false;
	fd = raw_open(&s->f, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
	fixture_wait(&s->f, &s->all_held);
	close(fd);
	http_answer_error(s->held[0], 500, "too late");
}

static void tick(void *arg)
{
	*(bool *)arg = true;
}

/* Looks as often as it takes to see that the client is gone, or 50 times. */
static bool becomes_gone(struct state *s, struct http_req *req)
{
	for (int i = 0; i < 50; i++) {
		struct loop_timer timer = { 0 };
		bool over = false;

		if (http_is_gone(req))
			return true;
		loop_timer_in(s->f.loop, &timer, 10 * NS_PER_MS, tick, &over);
		fixture_wait(&s->f, &over);
	}
	return false;
}

/* A client that closed, or only its sending side, is seen to be gone, also behind bytes that it sent before. */
static void test_gone_while_held(struct state *s, const char *behind, bool closes)
{
	char *request = xasprintf("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n%s", behind);
	int fd;

	s->n_held = 0;
	s->want_held = 1;
	s->all_held = false;
	fd = raw_open(&s->f, request);
	fixture_wait(&s->f, &s->all_held);
	CHECK(!http_is_gone(s->held[0]));
	if (!closes)
		shutdown(fd, SHUT_WR);
	else
		close(fd);
	CHECK(becomes_gone(s, s->held[0]));
	http_answer_error(s->held[0], 500, "too late");
	if (!closes)
		close(fd);
	free(request);
}

static void test_free_while_busy(void)
{
	struct state s;
	struct job jobs[4] = { 0 };
	int fd;

	start(&s);
	fd = raw_open(&s.f, "GET /forever HTTP/1.1\r\nHost: x\r\n\r\n");
	fixture_wait(&s.f, &s.streaming);
	s.want_held = 4;
	for (int i = 0; i < 4; i++)
		job_start(&s.f, &jobs[i], "GET", "/hold");
	fixture_wait(&s.f, &s.all_held);
	http_server_free(s.f.server);
	s.f.server = NULL;
	CHECK(s.gone);
	for (int i = 0; i < 4; i++) {
		fixture_wait(&s.f, &jobs[i].done);
		CHECK_OK(jobs[i].rc, jobs[i].e);
		CHECK_EQ(jobs[i].status, 503);
		job_end(&jobs[i]);
	}
	http_answer(s.held[0], 200, "text/plain", "x", 1);
	http_answer_error(s.held[1], 500, "x");
	http_answer_fd(s.held[2], dup(s.file), &the_file);
	CHECK(!http_answer_stream(s.held[3], on_gone, &s));
	CHECK_EQ(s.n_gone, 1);
	close(fd);
	stop(&s);
}

/* Opens connections from one loopback address until the server closes one. */
static int fill_from(const struct fixture *f, const char *from, int *fds, int max)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)f->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in own = { .sin_family = AF_INET };
	int n = 0;

	CHECK_EQ(inet_pton(AF_INET, from, &own.sin_addr), 1);
	for (; n < max; n++) {
		fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK(fds[n] >= 0);
		CHECK(!bind(fds[n], (struct sockaddr *)&own, sizeof(own)));
		CHECK(!connect(fds[n], (struct sockaddr *)&to, sizeof(to)));
	}
	return n;
}

/* Those that the server has not closed. */
static int count_open(const int *fds, int n)
{
	int n_open = 0;
	char byte;

	for (int i = 0; i < n; i++)
		n_open += recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
	return n_open;
}

static void close_all(const int *fds, int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* Two addresses open as many connections as they can; a third is still served. Silent connections are closed
 * after some seconds: only what is served before that counts, and they are opened again. */
static void test_two_addresses_take_all(void)
{
	enum { EACH = 600, ALL = 2 * EACH, HELD = 700, TRIES = 400 };
	struct rlimit files;
	struct state s;
	struct job j = { 0 };
	int *fds = xcalloc(ALL, sizeof(*fds));
	int n = 0;

	CHECK(!getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &files));
	start(&s);
	for (int tries = 0, served = 0; served < 20; tries++) {
		CHECK(tries < TRIES);
		if (count_open(fds, n) < HELD) {
			close_all(fds, n);
			n = fill_from(&s.f, "127.0.0.2", fds, EACH);
			n += fill_from(&s.f, "127.0.0.3", fds + EACH, EACH);
		}
		CHECK_EQ(job_run(&s.f, &j, "GET", "/hello"), 200);
		served += count_open(fds, n) >= HELD;
	}
	job_end(&j);
	close_all(fds, n);
	stop(&s);
	free(fds);
}

/* Requests that were posted and never delivered. */
static void test_free_at_once(void)
{
	struct state s;
	int fds[8];

	start(&s);
	for (int i = 0; i < 8; i++)
		fds[i] = raw_open(&s.f, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
	stop(&s);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}

/* ---- TLS ---- */

static void test_tls(void)
{
	const char *folder = temp_dir();
	char cert[64], key[64];
	struct http_server_opts opts = {
		.address = "127.0.0.1:0", .cert_file = cert, .key_file = key, .threads = 2
	};
	struct http_server *bad;
	struct state s = { .file = make_file() };
	struct job j = { .call.ca_file = cert };
	struct err e;
	int status;

	snprintf(cert, sizeof(cert), "%s/localhost.crt", folder);
	snprintf(key, sizeof(key), "%s/localhost.key", folder);
	cert_free(cert_make(folder, "localhost", NULL));
	fixture_start(&s.f, &opts, handle, &s);
	CHECK_EQ(job_run(&s.f, &j, "GET", "/file"), 200);
	CHECK_EQ(j.answer.len, FILE_BYTES);
	j.call.ca_file = NULL; /* the system's authorities: not ours */
	CHECK_EQ(http_call(&j.call, &status, &j.answer, &e), ERR_PEER);
	CHECK(strstr(e.msg, "not trusted"));
	opts.key_file = cert;
	CHECK(http_server_new(&bad, s.f.loop, &opts, handle, &s, &status, &e) < 0);
	opts.key_file = NULL;
	CHECK_EQ(http_server_new(&bad, s.f.loop, &opts, handle, &s, &status, &e), ERR_INVALID);
	opts.key_file = "/nonexistent";
	CHECK_EQ(http_server_new(&bad, s.f.loop, &opts, handle, &s, &status, &e), ERR_NOT_FOUND);
	job_end(&j);
	stop(&s);
}

static void test_address_in_use(struct state *s)
{
	char address[32];
	struct http_server_opts opts = { .address = address, .threads = 2 };
	struct http_server *second;
	struct err e = { 0 };
	int port;

	snprintf(address, sizeof(address), "127.0.0.1:%d", s->f.port);
	CHECK_EQ(http_server_new(&second, s->f.loop, &opts, handle, s, &port, &e), ERR_BUSY);
	CHECK(strstr(e.msg, address));
	opts.address = "nonsense";
	CHECK_EQ(http_server_new(&second, s->f.loop, &opts, handle, s, &port, &e), ERR_INVALID);
}

int main(void)
{
	struct state s;

	start(&s);
	test_get(&s);
	test_errors(&s);
	test_long_query(&s);
	test_keys_of_query(&s);
	test_post(&s);
	test_chunked_post(&s);
	test_parallel(&s);
	test_ranges(&s);
	test_headers(&s);
	test_smuggling(&s);
	test_head(&s);
	test_garbage(&s);
	test_leaves_while_held(&s);
	test_gone_while_held(&s, "", true);
	test_gone_while_held(&s, "", false);
	test_gone_while_held(&s, "GET /hello HTTP/1.1\r\n", true);
	test_address_in_use(&s);
	stop(&s);
	test_free_while_busy();
	test_free_at_once();
	test_two_addresses_take_all();
	test_tls();
	return 0;
}
