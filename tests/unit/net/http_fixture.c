/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/net/http_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

void fixture_start(struct fixture *f, const struct http_server_opts *opts, http_handler handler,
		   void *arg)
{
	static const struct http_server_opts plain = { .address = "127.0.0.1:0", .threads = 2 };
	struct err e = { 0 };

	CHECK_OK(loop_new(&f->loop, 16, &e), e);
	CHECK_OK(http_server_new(&f->server, f->loop, opts ? opts : &plain, handler, arg, &f->port,
				 &e),
		 e);
	CHECK(f->port > 0);
}

void fixture_stop(struct fixture *f)
{
	http_server_free(f->server);
	loop_free(f->loop);
}

void fixture_wait(struct fixture *f, const bool *flag)
{
	RUN_UNTIL(f->loop, *flag);
}

static void run_job(void *arg)
{
	struct job *j = arg;

	j->rc = http_call(&j->call, &j->status, &j->answer, &j->e);
}

static void end_job(void *arg)
{
	struct job *j = arg;

	j->done = true;
}

void job_start(struct fixture *f, struct job *j, const char *method, const char *path)
{
	snprintf(j->url, sizeof(j->url), "%s://127.0.0.1:%d%s", j->call.ca_file ? "https" : "http",
		 f->port, path);
	j->call.method = method;
	j->call.url = j->url;
	j->call.timeout_ns = 20 * NS_PER_S;
	j->done = false;
	loop_work(f->loop, run_job, end_job, j);
}

void job_end(struct job *j)
{
	buf_release(&j->answer);
}

int job_run(struct fixture *f, struct job *j, const char *method, const char *path)
{
	buf_reset(&j->answer);
	job_start(f, j, method, path);
	fixture_wait(f, &j->done);
	CHECK_OK(j->rc, j->e);
	return j->status;
}

int raw_open(const struct fixture *f, const char *text)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)f->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct timeval limit = { .tv_sec = 10 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	CHECK(!connect(fd, (struct sockaddr *)&to, sizeof(to)));
	CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

bool raw_read(int fd, const char *until, struct buf *out)
{
	char piece[65536];
	size_t from = 0; /* `until` does not begin before that */
	ssize_t n;

	while (!until || !strstr(buf_str(out) + from, until)) {
		if (until && out->len >= strlen(until))
			from = out->len - strlen(until) + 1;
		n = recv(fd, piece, sizeof(piece), 0);
		if (n <= 0)
			return false;
		buf_add(out, piece, (size_t)n);
	}
	return true;
}
