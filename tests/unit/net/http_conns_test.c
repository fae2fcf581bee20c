/* SPDX-License-Identifier: Apache-2.0 */
/* What the clients of an HTTP server may hold: memory for bodies and answers, time for a request. */
#include "net/http_conns.h"

#include <netinet/in.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

struct client {
	int near, far;
	struct http_conn *conn;
};

static const struct sockaddr_in address = { .sin_family = AF_INET };

static struct client client_open(struct http_conns *s)
{
	struct client c;
	int fds[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	c.near = fds[0];
	c.far = fds[1];
	c.conn = http_conn_begin(s, (const struct sockaddr *)&address, c.near);
	return c;
}

static bool is_cut(const struct client *c)
{
	char byte;

	return !recv(c->far, &byte, 1, MSG_DONTWAIT);
}

static void client_close(struct client *c)
{
	http_conn_end(c->conn);
	close(c->near);
	close(c->far);
}

static void test_bodies(struct http_conns *s)
{
	struct client a = client_open(s), b = client_open(s);
	size_t most = HTTP_BODIES_MAX_BYTES + HTTP_BODY_FREE_BYTES;

	CHECK(http_conn_body(a.conn, most / 2));
	CHECK(http_conn_body(a.conn, most));
	CHECK(!http_conn_body(a.conn, most + 1));
	/* Short bodies always fit. */
	CHECK(http_conn_body(b.conn, HTTP_BODY_FREE_BYTES));
	CHECK(!http_conn_body(b.conn, HTTP_BODY_FREE_BYTES + 1));
	http_conn_done(a.conn, NS_PER_S);
	CHECK(http_conn_body(b.conn, most));
	client_close(&b);
	CHECK(http_conn_body(a.conn, most));
	client_close(&a);
}

/* The oldest unread answers go, whatever their size; short ones do not count. */
static void test_answers(struct http_conns *s)
{
	enum { N = 6, BYTES = HTTP_ANSWERS_MAX_BYTES / 4 };
	struct client c[N], small = client_open(s);

	http_conn_answer(small.conn, HTTP_ANSWER_FREE_BYTES);
	for (int i = 0; i < N; i++)
		c[i] = client_open(s);
	for (int i = 0; i < 4; i++)
		http_conn_answer(c[i].conn, BYTES + HTTP_ANSWER_FREE_BYTES);
	http_conn_done(c[1].conn, NS_PER_S); /* read to its end */
	http_conn_answer(c[4].conn, BYTES + HTTP_ANSWER_FREE_BYTES);
	for (int i = 0; i < N; i++)
		CHECK(!is_cut(&c[i]));
	/* Eight times the largest answer is always allowed: this one raises the ceiling. */
	http_conn_answer(c[5].conn, HTTP_ANSWERS_MAX_BYTES);
	for (int i = 0; i < N; i++)
		CHECK(!is_cut(&c[i]));
	for (int i = 0; i < N; i++)
		client_close(&c[i]);
	CHECK(!is_cut(&small));
	client_close(&small);
}

static void test_oldest_answer_goes(struct http_conns *s)
{
	enum { N = 64, BYTES = HTTP_ANSWERS_MAX_BYTES / 32 };
	struct client c[N];

	for (int i = 0; i < N; i++) {
		c[i] = client_open(s);
		http_conn_answer(c[i].conn, BYTES + HTTP_ANSWER_FREE_BYTES);
	}
	for (int i = 0; i < N; i++)
		CHECK_EQ(is_cut(&c[i]), i < N - 32);
	for (int i = 0; i < N; i++)
		client_close(&c[i]);
}

static void test_slow_requests(struct http_conns *s, struct loop *loop)
{
	struct client head = client_open(s), body = client_open(s), answered = client_open(s),
		      waits = client_open(s);
	int64_t start_ns = now_mono_ns();

	http_conn_expect(body.conn, 2 * HTTP_HEAD_NS);
	http_conn_done(answered.conn, 5 * HTTP_HEAD_NS);
	http_conn_expect(waits.conn, 0);
	RUN_UNTIL(loop, now_mono_ns() > start_ns + HTTP_HEAD_NS - NS_PER_S);
	CHECK(!is_cut(&head));
	RUN_UNTIL(loop, now_mono_ns() > start_ns + HTTP_HEAD_NS + 2 * NS_PER_S);
	CHECK(is_cut(&head) && !is_cut(&body));
	RUN_UNTIL(loop, now_mono_ns() > start_ns + 2 * HTTP_HEAD_NS + 2 * NS_PER_S);
	CHECK(is_cut(&body) && !is_cut(&answered));
	RUN_UNTIL(loop, now_mono_ns() > start_ns + 6 * HTTP_HEAD_NS + 2 * NS_PER_S);
	CHECK(is_cut(&answered) && !is_cut(&waits));
	client_close(&head);
	client_close(&body);
	client_close(&answered);
	client_close(&waits);
}

int main(void)
{
	struct loop *loop;
	struct http_conns *s;
	struct err e;

	CHECK_OK(loop_new(&loop, 1, &e), e);
	s = http_conns_new(loop, 100);
	test_oldest_answer_goes(s);
	test_bodies(s);
	test_answers(s);
	test_slow_requests(s, loop);
	http_conns_stop(s);
	http_conns_free(s);
	loop_free(loop);
	return 0;
}
