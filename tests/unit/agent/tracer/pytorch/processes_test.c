/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that ask, and until when they are answered. */
#include "agent/tracer/pytorch/processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/tracer/pytorch/dynolog.h"
#include "base/child.h"
#include "base/loop.h"
#include "base/now.h"
#include "net/datagram.h"
#include "tests/lib/check.h"

static int asked;

static void on_ask(void *arg, const struct pytorch_process *p, struct buf *config)
{
	(void)arg;
	(void)p;
	asked++;
	buf_addf(config, "A=1\n");
}

/* A request of process 7, which can record. */
static void make_request(struct buf *out)
{
	struct {
		uint64_t size;
		char type[32];
		int32_t what, n;
		int64_t job;
		int32_t pids[2];
	} __attribute__((packed)) request = { 24, "req", 2, 2, 0, { 7, 1 } };

	buf_add(out, &request, sizeof(request));
}

/* It ends with this one. */
static pid_t start_process(void)
{
	pid_t pid = child_fork(SIGKILL);

	if (pid == 0) {
		pause();
		_exit(0);
	}
	CHECK(pid > 0);
	return pid;
}

/* Its parent does not know yet. */
static void end_process(pid_t pid)
{
	siginfo_t info;

	CHECK(!kill(pid, SIGKILL) && !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
}

int main(void)
{
	struct datagram_from from = { .pid = getpid(), .uid = getuid() };
	struct buf request = BUF_INIT, reply = BUF_INIT;
	struct pytorch_processes *ps;
	struct loop *loop;
	struct err e;
	int64_t first;
	size_t n;

	CHECK_OK(loop_new(&loop, 1, &e), e);
	ps = pytorch_processes_new(loop, NULL, NULL, on_ask, NULL);
	make_request(&request);
	CHECK_OK(pytorch_processes_take(ps, request.data, request.len, &from, &reply, &e), e);
	CHECK_EQ(asked, 1);
	CHECK_EQ(reply.len, 8 + 32 + 4);

	/* at once: it takes the first answer */
	CHECK_OK(pytorch_processes_take(ps, request.data, request.len, &from, &reply, &e), e);
	CHECK_EQ(asked, 1);
	CHECK_EQ(reply.len, 0);

	from.waited_ns = PYTORCH_ANSWER_IN_NS + 1;
	CHECK_OK(pytorch_processes_take(ps, request.data, request.len, &from, &reply, &e), e);
	CHECK_EQ(asked, 1);
	CHECK_EQ(reply.len, 0);
	CHECK_EQ(pytorch_processes_list(ps, &n)->requests, 3);
	CHECK_EQ(n, 1);

	for (int i = 1; i < PYTORCH_PER_USER_MAX; i++) {
		from.pid = start_process();
		CHECK_OK(pytorch_processes_take(ps, request.data, request.len, &from, &reply, &e),
			 e);
	}
	CHECK(!pytorch_processes_left_out(ps));
	first = from.pid;
	from.pid = start_process();
	CHECK_EQ(pytorch_processes_take(ps, request.data, request.len, &from, &reply, &e),
		 ERR_LIMIT);
	CHECK(pytorch_processes_left_out(ps));
	pytorch_processes_list(ps, &n);
	CHECK_EQ(n, PYTORCH_PER_USER_MAX);

	/* one that has ended is no more of them, and makes room */
	end_process((pid_t)first);
	pytorch_processes_list(ps, &n);
	CHECK_EQ(n, PYTORCH_PER_USER_MAX - 1);
	CHECK_OK(pytorch_processes_take(ps, request.data, request.len, &from, &reply, &e), e);

	pytorch_processes_free(ps);
	loop_free(loop);
	buf_release(&request);
	buf_release(&reply);
	return 0;
}
