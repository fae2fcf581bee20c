/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/net/local_socket_fixture.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"

/* "hold" waits; anything else is sent back. */
void local_fix_handle(struct local_request *req, const void *data, size_t len, void *arg)
{
	struct state *s = arg;

	if (len == 4 && !memcmp(data, "hold", 4)) {
		CHECK(s->n_held < MAX_HELD);
		s->held[s->n_held++] = req;
	} else {
		local_request_answer(req, data, len);
	}
}

static void run_ask(void *arg)
{
	struct ask *a = arg;
	struct local_client *c;
	uint8_t *reply;

	a->rc = local_client_open(&c, a->url, &a->e);
	if (a->rc)
		return;
	a->rc = local_client_call(c, a->text, a->len, 20 * NS_PER_S, &reply, &a->reply_len, &a->e);
	if (!a->rc)
		a->reply = (char *)reply;
	local_client_close(c);
}

static void end_ask(void *arg)
{
	struct ask *a = arg;

	a->done = true;
}

void local_fix_ask(struct state *s, struct ask *a, const char *text, size_t len)
{
	*a = (struct ask){ .url = s->url, .text = text, .len = len };
	loop_work(s->loop, run_ask, end_ask, a);
}

void local_fix_wait(struct state *s, const bool *done, int n_held)
{
	RUN_UNTIL(s->loop, (done && *done) || s->n_held >= n_held);
}

void local_fix_finish(struct state *s, struct ask *a)
{
	local_fix_wait(s, &a->done, MAX_HELD + 1);
}

void local_fix_echo(struct state *s, const char *text, size_t len)
{
	struct ask a;

	local_fix_ask(s, &a, text, len);
	local_fix_finish(s, &a);
	CHECK_OK(a.rc, a.e);
	CHECK_EQ(a.reply_len, len);
	CHECK(!memcmp(a.reply, text, len));
	free(a.reply);
}

void local_fix_start(struct state *s)
{
	struct err e = { 0 };

	*s = (struct state){ 0 };
	snprintf(s->folder, sizeof(s->folder), "%s", temp_dir());
	snprintf(s->path, sizeof(s->path), "%s/run/agent.ipc", s->folder);
	snprintf(s->url, sizeof(s->url), "ipc://%s", s->path);
	CHECK_OK(loop_new(&s->loop, 8, &e), e);
}

void local_fix_stop(struct state *s)
{
	char *run = xasprintf("%s/run", s->folder);

	local_socket_free(s->socket);
	loop_free(s->loop);
	unlink(s->path);
	rmdir(run);
	rmdir(s->folder);
	free(run);
}

int local_fix_socket(const char *path, bool serve)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = 10 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	if (serve)
		CHECK(!bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	else
		CHECK(!connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}
