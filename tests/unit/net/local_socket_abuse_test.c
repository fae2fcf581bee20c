/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/unit/net/local_socket_fixture.h"

/*
 * Clients that hang up before they are let in. What nng 1.5.2 forgets of those is its loss, and the
 * reason for a program of its own.
 */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libnng\n";
}

static atomic_int n_checks;

/* nng's calls, too: its library takes the program's. Only the socket's check of itself connects on another
 * thread. */
int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	if (gettid() != getpid())
		atomic_fetch_add(&n_checks, 1);
	return (int)syscall(SYS_connect, fd, address, len);
}

/* Clients that hang up in the middle of nng's greeting stop nng 1.5.2 from accepting; the socket
 * notices and opens anew. */
static void test_hang_up_at_once(struct state *s)
{
	int64_t end_ns = now_mono_ns() + RUN_LIMIT_NS;
	struct ask a;

	for (int i = 0; i < 20; i++)
		close(local_fix_socket(s->path, false));
	do {
		CHECK(now_mono_ns() < end_ns);
		local_fix_ask(s, &a, "here", 4);
		local_fix_finish(s, &a);
	} while (a.rc == ERR_CLOSED);
	CHECK_OK(a.rc, a.e);
	free(a.reply);
}

static size_t count_lines(int log, const char *with)
{
	struct buf text = BUF_INIT;
	char path[32];
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", log);
	CHECK(!file_load(path, 1 << 20, &text, NULL));
	for (const char *at = buf_str(&text); (at = strstr(at, with)); at++)
		n++;
	buf_release(&text);
	return n;
}

/* Clients that do so for ever cost a check and a line after longer and longer gaps: checks after 1, 2, 4, 8 and
 * 16 s, lines after 1, 4 and 10 s. */
static void test_hang_up_for_ever(struct state *s)
{
	int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	int64_t end_ns = now_mono_ns() + 15 * NS_PER_S;

	CHECK(log >= 0 && before >= 0);
	fflush(stderr);
	dup2(log, STDERR_FILENO);
	atomic_store(&n_checks, 0);
	while (now_mono_ns() < end_ns) {
		close(local_fix_socket(s->path, false));
		run_for(s->loop, 150 * NS_PER_MS);
	}
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	CHECK(atomic_load(&n_checks) >= 1 && atomic_load(&n_checks) <= 5);
	CHECK(count_lines(log, "NET-UNIDENTIFIED") >= 1 &&
	      count_lines(log, "NET-UNIDENTIFIED") <= 3);
	CHECK(count_lines(log, "LOCAL-REOPENED") <= 3);
	close(log);
}

/* The other side hangs up; true however much it says before. */
static bool is_hung_up(int fd)
{
	char bytes[64];
	ssize_t n;

	do {
		n = recv(fd, bytes, sizeof(bytes), 0);
	} while (n > 0);
	return n == 0 || errno == ECONNRESET;
}

static void test_garbage(struct state *s)
{
	/* nng's greeting of a requester; then a message of 2^40 bytes. */
	static const char endless[] = "\0SP\0\0\x30\0\0\x01\0\0\1\0\0\0\0\0";
	static const char noise[] = "GET / HTTP/1.1\r\n\r\n";
	int fd = local_fix_socket(s->path, false);

	CHECK_EQ(send(fd, noise, sizeof(noise), MSG_NOSIGNAL), sizeof(noise));
	CHECK(is_hung_up(fd));
	close(fd);
	fd = local_fix_socket(s->path, false);
	CHECK_EQ(send(fd, endless, sizeof(endless) - 1, MSG_NOSIGNAL), sizeof(endless) - 1);
	CHECK(is_hung_up(fd));
	close(fd);
	local_fix_echo(s, "still here", 10);
}

/* A second agent looks whether the first is alive, and must not hurt it by that. */
static void test_second_socket(struct state *s)
{
	struct local_socket *second;
	struct err e = { 0 };

	CHECK_EQ(local_socket_open(&second, s->loop, s->url, local_fix_handle, s, &e), ERR_BUSY);
	local_fix_echo(s, "still the first", 15);
}

int main(void)
{
	struct state s;
	struct err e = { 0 };

	local_fix_start(&s);
	CHECK_OK(local_socket_open(&s.socket, s.loop, s.url, local_fix_handle, &s, &e), e);
	test_second_socket(&s);
	test_garbage(&s);
	test_hang_up_at_once(&s);
	test_hang_up_for_ever(&s);
	local_fix_stop(&s);
	return 0;
}
