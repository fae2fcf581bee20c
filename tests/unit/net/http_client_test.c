/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_client.h"

#include <unistd.h>

#include "base/mem.h"
#include "net/http_server.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/unit/net/http_fixture.h"

static void on_gone(void *arg)
{
	(void)arg;
}

static void handle(struct http_req *req, void *arg)
{
	const char *path = http_path(req);
	const char *token = http_header(req, "Authorization");
	struct http_stream *st;

	if (!strcmp(path, "/token")) {
		http_answer(req, 200, "text/plain", token ? token : "", token ? strlen(token) : 0);
	} else if (!strcmp(path, "/bad")) {
		http_answer_error(req, 409, "already there");
	} else if (!strcmp(path, "/names")) {
		st = http_answer_stream(req, on_gone, NULL);
		http_stream_send(st, "progress", "{\"a\": 1}");
		http_stream_send(st, "done", "");
		http_stream_send(st, "done", "yes");
		http_stream_end(st);
	} else {
		*(struct http_req **)arg = req;
	}
}

/* ---- answers ---- */

static void test_token(struct fixture *f)
{
	struct job j = { .call.token = "s3cret" };

	CHECK_EQ(job_run(f, &j, "GET", "/token"), 200);
	CHECK_STR(buf_str(&j.answer), "Bearer s3cret");
	j.call.token = NULL;
	CHECK_EQ(job_run(f, &j, "GET", "/token"), 200);
	CHECK_STR(buf_str(&j.answer), "");
	job_end(&j);
}

static int count_piece(void *arg, const void *data, size_t len)
{
	size_t *n = arg;

	(void)data;
	*n += len;
	return 0;
}

static int refuse_piece(void *arg, const void *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return ERR_CANCELLED;
}

static void test_pieces(struct fixture *f)
{
	size_t n = 0;
	struct job j = { .call = { .token = "abc", .piece = count_piece, .arg = &n } };

	CHECK_EQ(job_run(f, &j, "GET", "/token"), 200);
	CHECK_EQ(n, strlen("Bearer abc"));
	CHECK_EQ(j.answer.len, 0);
	/* An error's text is for `answer`, not for the file that is being written. */
	CHECK_EQ(job_run(f, &j, "GET", "/bad"), 409);
	CHECK_STR(buf_str(&j.answer), "{\"error\": \"already there\"}\n");
	CHECK_EQ(n, strlen("Bearer abc"));
	j.call.piece = refuse_piece;
	job_start(f, &j, "GET", "/token");
	fixture_wait(f, &j.done);
	CHECK_EQ(j.rc, ERR_CANCELLED);
	job_end(&j);
}

/* ---- no answers ---- */

static void test_no_answer(struct fixture *f, struct http_req **unanswered)
{
	struct buf answer = BUF_INIT;
	struct err e = { 0 };
	struct http_call call = { .method = "GET", .timeout_ns = 50 * 1000000 };
	int status;

	call.url = xasprintf("http://127.0.0.1:%d/never", f->port);
	CHECK_EQ(http_call(&call, &status, &answer, &e), ERR_TIMEOUT);
	CHECK(strstr(e.msg, call.url));
	RUN_UNTIL(f->loop, *unanswered);
	http_answer_error(*unanswered, 500, "too late");
	free((void *)(uintptr_t)call.url);
	call.url = "ftp://127.0.0.1/";
	CHECK_EQ(http_call(&call, &status, &answer, &e), ERR_INVALID);
	call.url = "http://[::bad/";
	CHECK_EQ(http_call(&call, &status, &answer, &e), ERR_INVALID);
}

static void test_no_listener(const char *url)
{
	struct buf answer = BUF_INIT;
	struct err e = { 0 };
	struct http_call call = { .method = "GET", .url = url };
	int status;

	/* A proxy from the environment is not asked for what is on this host. */
	CHECK(!setenv("http_proxy", "http://127.0.0.1:1", 1));
	CHECK_EQ(http_call(&call, &status, &answer, &e), ERR_CLOSED);
	CHECK(strstr(e.msg, "no server listens"));
	CHECK(!unsetenv("http_proxy"));
}

/* ---- events ---- */

struct heard {
	struct fixture *f;
	struct buf text;
	int rc, status;
	int stop_with;
	struct err e;
	bool done;
};

static int on_event(void *arg, const char *event, const char *data)
{
	struct heard *h = arg;

	buf_addf(&h->text, "%s=%s;", event, data);
	return strcmp(event, "done") ? 0 : h->stop_with;
}

static void run_events(void *arg)
{
	struct heard *h = arg;
	char *url = xasprintf("http://127.0.0.1:%d/names", h->f->port);
	struct http_call call = { .url = url };
	struct buf answer = BUF_INIT;

	h->rc = http_events(&call, &h->status, &answer, on_event, h, &h->e);
	buf_release(&answer);
	free(url);
}

static void end_events(void *arg)
{
	struct heard *h = arg;

	h->done = true;
}

static void test_events(struct fixture *f, int stop_with, int want)
{
	struct heard h = { .f = f, .stop_with = stop_with };

	loop_work(f->loop, run_events, end_events, &h);
	fixture_wait(f, &h.done);
	CHECK_EQ(h.rc, want);
	/* One without data is none. */
	CHECK_STR(buf_str(&h.text), "progress={\"a\": 1};done=yes;");
	buf_release(&h.text);
}

int main(void)
{
	struct http_req *unanswered = NULL;
	struct fixture f;
	char url[64];

	fixture_start(&f, NULL, handle, &unanswered);
	test_token(&f);
	test_pieces(&f);
	test_events(&f, 1, 0);
	test_events(&f, 0, ERR_CLOSED);
	test_events(&f, ERR_CANCELLED, ERR_CANCELLED);
	test_no_answer(&f, &unanswered);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/", f.port);
	fixture_stop(&f);
	test_no_listener(url);
	return 0;
}
