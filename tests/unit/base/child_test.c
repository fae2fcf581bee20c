/* SPDX-License-Identifier: Apache-2.0 */
/* No child outlives its parent, however soon that ends. */
#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"

#define ROUNDS	    300
#define PATIENCE_MS 20000

static void stay(void)
{
	for (;;)
		pause();
}

/* The other end of the pipe is in the child alone. */
static void check_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	CHECK_EQ(poll(&p, 1, PATIENCE_MS), 1);
	CHECK_EQ(read(fd, &byte, 1), 0);
	close(fd);
}

/* In most rounds the parent has ended before the child runs. */
static void test_parent_ends_at_once(void)
{
	int fds[2], status;
	pid_t parent;

	CHECK(!pipe2(fds, O_CLOEXEC));
	parent = child_fork(SIGKILL);
	CHECK(parent >= 0);
	if (!parent) {
		if (!child_fork(SIGKILL))
			stay();
		_exit(0);
	}
	close(fds[1]);
	CHECK(waitpid(parent, &status, 0) == parent && !status);
	check_ended(fds[0]);
}

static void test_exec_keeps_it(void)
{
	int fds[2];
	pid_t parent;

	CHECK(!pipe(fds));
	parent = child_fork(SIGKILL);
	CHECK(parent >= 0);
	if (!parent) {
		if (!child_fork(SIGTERM))
			execlp("sleep", "sleep", "1000", NULL);
		stay();
	}
	close(fds[1]);
	CHECK(!kill(parent, SIGKILL) && waitpid(parent, NULL, 0) == parent);
	check_ended(fds[0]);
}

struct forker {
	int fds[2];
	pid_t pid;
};

/* Ends when the child runs. */
static void *fork_here(void *arg)
{
	struct forker *f = arg;
	char byte;

	f->pid = child_fork(SIGTERM);
	if (!f->pid) {
		CHECK(write(f->fds[1], "x", 1) == 1);
		stay();
	}
	CHECK(read(f->fds[0], &byte, 1) == 1);
	return NULL;
}

/* It is the thread that counts, not the process. */
static void test_thread_ends(void)
{
	struct forker f;
	pthread_t thread;
	int status;

	CHECK(!pipe(f.fds));
	CHECK(!pthread_create(&thread, NULL, fork_here, &f));
	CHECK(!pthread_join(thread, NULL));
	CHECK_EQ(waitpid(f.pid, &status, 0), f.pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

int main(void)
{
	for (int i = 0; i < ROUNDS; i++)
		test_parent_ends_at_once();
	test_exec_keeps_it();
	test_thread_ends();
	return 0;
}
