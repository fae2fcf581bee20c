/* SPDX-License-Identifier: Apache-2.0 */
#include "net/local_socket.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "proto/limits.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/unit/net/local_socket_fixture.h"

static void test_no_listener(struct state *s)
{
	struct local_client *c;
	struct err e = { 0 };

	CHECK_EQ(local_client_open(&c, s->url, &e), ERR_CLOSED);
	CHECK(strstr(e.msg, "tutti-agent"));
	CHECK_EQ(local_client_open(&c, "not-a-url", &e), ERR_INVALID);
	CHECK_EQ(local_socket_open(&s->socket, s->loop, "tcp://127.0.0.1:0", local_fix_handle, s,
				   &e),
		 ERR_INVALID);
}

static void test_open(struct state *s)
{
	struct stat st;
	struct err e = { 0 };
	char *run = xasprintf("%s/run", s->folder);
	mode_t mask = umask(022);

	CHECK_OK(local_socket_open(&s->socket, s->loop, s->url, local_fix_handle, s, &e), e);
	umask(mask);
	CHECK(!stat(run, &st));
	CHECK_EQ(st.st_mode & 0777, 0755);
	CHECK(!stat(s->path, &st));
	CHECK_EQ(st.st_mode & 0777, 0660);
	free(run);
}

static void test_sizes(struct state *s)
{
	char *text = xcalloc(1, LIMIT_LOCAL_BYTES + 1);
	struct ask a;

	memset(text, 'y', LIMIT_LOCAL_BYTES + 1);
	local_fix_echo(s, "", 0);
	local_fix_echo(s, text, 1);
	local_fix_echo(s, text, LIMIT_LOCAL_BYTES);
	local_fix_ask(s, &a, text, LIMIT_LOCAL_BYTES + 1);
	local_fix_finish(s, &a);
	CHECK_EQ(a.rc, ERR_LIMIT);
	free(text);
}

/* Clients that were let in and have left are identified, and so is the socket's own check: the log is silent. */
static void test_clients_leave_silently(struct state *s)
{
	int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	struct stat st;

	CHECK(log >= 0 && before >= 0);
	fflush(stderr);
	dup2(log, STDERR_FILENO);
	for (int i = 0; i < 5; i++)
		local_fix_echo(s, "here and gone", 13);
	run_for(s->loop, 3 * NS_PER_S); /* the socket looks each second */
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	CHECK(!fstat(log, &st));
	CHECK_EQ(st.st_size, 0);
	close(log);
}

static void test_slow_answers_block_no_other(struct state *s)
{
	struct ask held[MAX_HELD];

	s->n_held = 0;
	for (int i = 0; i < MAX_HELD; i++)
		local_fix_ask(s, &held[i], "hold", 4);
	local_fix_wait(s, NULL, MAX_HELD);
	local_fix_echo(s, "quick", 5);
	for (int i = 0; i < MAX_HELD; i++)
		local_request_answer(s->held[i], "at last", 7);
	for (int i = 0; i < MAX_HELD; i++) {
		local_fix_finish(s, &held[i]);
		CHECK_OK(held[i].rc, held[i].e);
		CHECK_EQ(held[i].reply_len, 7);
		free(held[i].reply);
	}
	s->n_held = 0;
}

static void test_free_with_open_requests(struct state *s)
{
	struct ask held[2];

	s->n_held = 0;
	local_fix_ask(s, &held[0], "hold", 4);
	local_fix_ask(s, &held[1], "hold", 4);
	local_fix_wait(s, NULL, 2);
	local_socket_free(s->socket);
	s->socket = NULL;
	for (int i = 0; i < 2; i++) {
		local_request_answer(s->held[i], "x", 1);
		local_fix_finish(s, &held[i]);
		CHECK_EQ(held[i].rc, ERR_CLOSED);
	}
	s->n_held = 0;
}

static void test_what_lies_in_the_way(struct state *s)
{
	struct err e = { 0 };
	FILE *f;

	/* A socket whose server is dead. */
	unlink(s->path);
	close(local_fix_socket(s->path, true));
	CHECK_OK(local_socket_open(&s->socket, s->loop, s->url, local_fix_handle, s, &e), e);
	local_fix_echo(s, "new", 3);
	local_socket_free(s->socket);
	s->socket = NULL;

	/* A foreign file stays. */
	unlink(s->path);
	f = fopen(s->path, "w");
	CHECK(f);
	fclose(f);
	CHECK_EQ(local_socket_open(&s->socket, s->loop, s->url, local_fix_handle, s, &e),
		 ERR_EXISTS);
}

int main(void)
{
	struct state s;

	local_fix_start(&s);
	test_no_listener(&s);
	test_open(&s);
	test_sizes(&s);
	test_clients_leave_silently(&s);
	test_slow_answers_block_no_other(&s);
	test_free_with_open_requests(&s);
	test_what_lies_in_the_way(&s);
	local_fix_stop(&s);
	return 0;
}
