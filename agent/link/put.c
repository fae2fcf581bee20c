/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/put.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/clean_text.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/http_client_pool.h"

#define RUNNING_MAX  2
#define HEADERS_MAX  8
#define PROGRESS_NS  NS_PER_S
#define ANSWER_BYTES ((size_t)64 << 10)

struct put {
	struct puts *puts;
	struct put_request req; /* without the grant */
	char *url, *headers[HEADERS_MAX + 1];
	struct loop_timer progress;
	_Atomic bool cancelled;
	_Atomic uint64_t sent;
	int rc;
	struct err error;
	TAILQ_ENTRY(put) entry; /* in puts.waiting */
};

struct puts {
	struct loop *loop;
	struct http_pool *http;
	unsigned int n_running;
	bool is_free_pending; /* freed with the last put */
	TAILQ_HEAD(, put) waiting;
};

struct puts *puts_new(struct loop *loop, const char *ca_file)
{
	struct puts *ps = xcalloc(1, sizeof(*ps));

	ps->loop = loop;
	ps->http = http_pool_new(ca_file);
	TAILQ_INIT(&ps->waiting);
	return ps;
}

void puts_free(struct puts *ps)
{
	if (!ps)
		return;
	ps->is_free_pending = true;
	if (ps->n_running || !TAILQ_EMPTY(&ps->waiting))
		return;
	http_pool_free(ps->http);
	free(ps);
}

/* ---- the grant ---- */

int put_check_grant(const Tutti__V1__Grant *grant, struct err *e)
{
	if (strcmp(grant->method, "PUT"))
		return err_set(e, ERR_INVALID, "a grant with another method than PUT");
	if (strncasecmp(grant->url, "http://", 7) && strncasecmp(grant->url, "https://", 8))
		return err_set(e, ERR_INVALID, "a grant whose URL is not http:// or https://");
	if (grant->url[strcspn(grant->url, "\r\n \t")])
		return err_set(e, ERR_INVALID, "a grant whose URL is not encoded");
	if (grant->n_headers > HEADERS_MAX)
		return err_set(e, ERR_LIMIT, "a grant of %zu headers, limit %d", grant->n_headers,
			       HEADERS_MAX);
	for (size_t i = 0; i < grant->n_headers; i++) {
		const char *text = grant->headers[i];

		if (!strchr(text, ':') || text[strcspn(text, "\r\n")])
			return err_set(e, ERR_INVALID, "a grant with a malformed header");
	}
	return 0;
}

/* ---- on a worker ---- */

/* The code of S3's and Azure's XML, if the answer has one. */
static void read_code(const struct buf *answer, char *out, size_t size)
{
	const char *begin = strstr(buf_str(answer), "<Code>"), *end;

	*out = '\0';
	begin = begin ? begin + strlen("<Code>") : NULL;
	end = begin ? strstr(begin, "</Code>") : NULL;
	if (end)
		clean_text(out, size, begin, (size_t)(end - begin));
}

static int judge(const struct put *p, int status, const struct buf *answer, struct err *e)
{
	const char *host = strstr(p->url, "://") + 3;
	char code[64];

	if (status >= 200 && status < 300)
		return 0;
	if (status == 412 || status == 409)
		return err_set(e, ERR_EXISTS, "the store has an object of this name");
	read_code(answer, code, sizeof(code));
	return err_set(e, ERR_PEER, "the store at %.*s answers %d%s%s", (int)strcspn(host, "/?"),
		       host, status, *code ? " " : "", code);
}

static void run_put(void *arg)
{
	struct put *p = arg;
	const struct http_request req = {
		.method = "PUT",
		.url = p->url,
		.headers = (const char *const *)p->headers,
		.has_body = true,
		.fd = p->req.fd,
		.offset = p->req.offset,
		.len = p->req.bytes,
		.deadline_mono_ns = p->req.deadline_mono_ns,
		.answer_max = ANSWER_BYTES,
		.cancelled = &p->cancelled,
		.sent = &p->sent,
	};
	struct buf answer = BUF_INIT;
	int status;

	p->rc = http_pool_request(p->puts->http, &req, &status, &answer, &p->error);
	if (!p->rc)
		p->rc = judge(p, status, &answer, &p->error);
	else
		err_prefix(&p->error, "the store");
	buf_release(&answer);
}

/* ---- on the loop ---- */

static void start_next(struct puts *ps);

static void on_progress(void *arg)
{
	struct put *p = arg;

	p->req.progress(p->req.arg, p->sent);
	loop_timer_in(p->puts->loop, &p->progress, PROGRESS_NS, on_progress, p);
}

/* Overwrites what it frees: the URL is a secret for as long as the grant lives. */
static void free_text(char *text)
{
	explicit_bzero(text, strlen(text));
	free(text);
}

static void finish(struct put *p)
{
	loop_timer_cancel(p->puts->loop, &p->progress);
	p->req.done(p->req.arg, p->rc, &p->error);
	free_text(p->url);
	for (size_t i = 0; p->headers[i]; i++)
		free_text(p->headers[i]);
	free(p);
}

static void on_put(void *arg)
{
	struct put *p = arg;
	struct puts *ps = p->puts;

	ps->n_running--;
	if (p->cancelled && p->rc && p->rc != ERR_EXISTS)
		p->rc = err_set(&p->error, ERR_CLOSED, "cancelled");
	finish(p);
	start_next(ps);
	if (ps->is_free_pending)
		puts_free(ps);
}

static void start_next(struct puts *ps)
{
	struct put *p;

	while (ps->n_running < RUNNING_MAX && (p = TAILQ_FIRST(&ps->waiting))) {
		TAILQ_REMOVE(&ps->waiting, p, entry);
		ps->n_running++;
		loop_work(ps->loop, run_put, on_put, p);
	}
}

struct put *put_start(struct puts *ps, const struct put_request *req)
{
	struct put *p = xcalloc(1, sizeof(*p));

	p->puts = ps;
	p->req = *req;
	p->req.grant = NULL;
	p->url = xstrdup(req->grant->url);
	for (size_t i = 0; i < req->grant->n_headers; i++)
		p->headers[i] = xstrdup(req->grant->headers[i]);
	TAILQ_INSERT_TAIL(&ps->waiting, p, entry);
	loop_timer_in(ps->loop, &p->progress, PROGRESS_NS, on_progress, p);
	start_next(ps);
	return p;
}

/* One that still waits goes through a worker, too, which ends at once. */
void put_cancel(struct put *p)
{
	if (!p)
		return;
	p->cancelled = true;
	loop_timer_cancel(p->puts->loop, &p->progress);
}
