/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/file_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc/foreign_file.h"
#include "base/child.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

/* A call that took less was not asleep for long. */
#define QUICK_NS NS_PER_MS

/* The first keeper that ends is replaced at once. From then on there is none for so long, twice as long each time: one that ends at
 * each start costs next to nothing. After one that lived for longer than the most it begins anew. */
#define REST_NS	    NS_PER_S
#define REST_MAX_NS (64 * NS_PER_S)

struct file_keeper {
	int fd; /* to the keeper: each message carries the socket of a new process */
	const struct file_helper *helper; /* NULL = none */
	void *shared;
};

/* What a new process is, as the byte of such a message. */
enum { READER = 'r', HELPER = 'h' };

/* ---- a reader ---- */

/* How long it ran, and waited for a CPU. */
static int64_t busy_ns(int schedstat_fd)
{
	unsigned long long ran, waited;
	char text[64] = "";

	if (file_read_up_to(schedstat_fd, 0, text, sizeof(text) - 1) <= 0 ||
	    sscanf(text, "%llu %llu", &ran, &waited) != 2)
		return 0;
	return (int64_t)(ran + waited);
}

static int32_t read_some(const struct file_request *q, void *out, struct err *e)
{
	size_t len = q->len < FILE_CHUNK_BYTES ? q->len : FILE_CHUNK_BYTES;
	ssize_t n = file_read_up_to(q->fd, q->offset, out, len);

	return n < 0 ? err_errno(e, "reading a file") : (int32_t)n;
}

static int32_t remove_file(struct file_request *q)
{
	char *slash = strrchr(q->path, '/');

	if (!slash)
		return 0;
	*slash = '\0';
	return foreign_remove(q->pid, q->path, slash + 1, q->uid);
}

static int32_t answer(struct file_request *q, struct file_answer *a, void *bytes)
{
	switch ((enum file_call)q->call) {
	case FILE_OPEN_MAPPED:
		return foreign_open_mapped(q->pid, q->path, q->inode, &a->st, &a->e);
	case FILE_OPEN:
		return foreign_open(q->pid, q->path, &a->st, &a->e);
	case FILE_OPEN_HERE:
		return foreign_open_here(q->path, &a->st, &a->e);
	case FILE_READ:
		return read_some(q, bytes, &a->e);
	case FILE_CLOSE:
		close(q->fd);
		break;
	case FILE_LIST:
		return (int32_t)foreign_list(q->pid, q->path, q->offset, bytes, FILE_CHUNK_BYTES);
	case FILE_REMOVE:
		return remove_file(q);
	}
	return 0;
}

static bool send_answer(int fd, const struct file_request *q, const struct file_answer *a,
			const uint8_t *bytes)
{
	struct iovec parts[2] = { { (void *)a, sizeof(*a) }, { (void *)bytes, 0 } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };

	if ((q->call == FILE_READ || q->call == FILE_LIST) && a->rc > 0)
		parts[1].iov_len = (size_t)a->rc;
	return sendmsg(fd, &m, MSG_NOSIGNAL) >= 0;
}

static void serve(int fd)
{
	int schedstat_fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	uint8_t *bytes = xmalloc(FILE_CHUNK_BYTES);
	struct file_request q;
	struct file_answer a;
	bool is_open = true;

	while (is_open && recv(fd, &q, sizeof(q), 0) > 0) {
		int64_t began_ns = now_mono_ns(), busy = busy_ns(schedstat_fd);

		memset(&a, 0, sizeof(a));
		a.pid = getpid();
		a.rc = answer(&q, &a, bytes);
		a.asleep_ns = now_mono_ns() - began_ns;
		if (a.asleep_ns > QUICK_NS)
			a.asleep_ns -= busy_ns(schedstat_fd) - busy;
		is_open = send_answer(fd, &q, &a, bytes);
	}
	_exit(0);
}

/* ---- the keeper ---- */

/* Waits for a message: its byte, and the socket that it carries, -1 where that has not come. False at the end. */
static bool take_socket(int from, char *byte, int *fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { byte, 1 };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	*fd = -1;
	if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) <= 0)
		return false;
	if (m.msg_controllen >= sizeof(control.head))
		memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
	return true;
}

/* A process that waits for a file system that can be given up ends with its keeper. */
static void become(const struct file_keeper *k, char kind, int fd)
{
	close(k->fd);
	if (kind == READER)
		serve(fd);
	prctl(PR_SET_NAME, k->helper->name);
	k->helper->serve(fd, k->shared);
	_exit(0);
}

/* Instead of an output, or an input, of the agent. */
static void open_null(int fd)
{
	close(fd);
	(void)!open("/dev/null", O_RDWR);
}

/* A reader that the kernel keeps must keep no file, folder or output of the agent. */
static void keep(const struct file_keeper *k)
{
	char kind;
	int fd;

	prctl(PR_SET_NAME, "tutti-files");
	signal(SIGCHLD, SIG_IGN);
	open_null(STDERR_FILENO);
	while (take_socket(k->fd, &kind, &fd)) {
		if (fd >= 0 && child_fork(SIGKILL) == 0)
			become(k, kind, fd);
		close(fd);
	}
	_exit(0);
}

/* ---- the guard ---- */

/* For so long who asks for a process gets none. */
static void refuse(const struct file_keeper *k, int64_t ns)
{
	struct pollfd p = { .fd = k->fd, .events = POLLIN };
	const int64_t until_ns = now_mono_ns() + ns;
	int64_t left_ns;
	char kind;
	int fd;

	while ((left_ns = until_ns - now_mono_ns()) > 0) {
		if (poll(&p, 1, (int)(left_ns / NS_PER_MS) + 1) <= 0)
			continue;
		if (!take_socket(k->fd, &kind, &fd))
			_exit(0);
		close(fd);
	}
}

/* Returns a status of waitpid(): 0 if the agent has ended. */
static int run_keeper(const struct file_keeper *k)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		keep(k);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	return status;
}

/* All keepers take from one socket: what is asked while there is none waits for the next, unless that is to rest. */
static void guard(const struct file_keeper *k)
{
	int64_t began_ns = now_mono_ns(), rest_ns = 0;
	int status;

	while ((status = run_keeper(k))) {
		if (now_mono_ns() - began_ns > REST_MAX_NS)
			rest_ns = 0;
		log_warn("AGT-PART", "part=files state=%s reason=\"tutti-files: signal %d\"",
			 rest_ns ? "resting" : "restarted",
			 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
		refuse(k, rest_ns);
		rest_ns = rest_ns ? 2 * rest_ns : REST_NS;
		if (rest_ns > REST_MAX_NS)
			rest_ns = REST_MAX_NS;
		began_ns = now_mono_ns();
	}
	_exit(0);
}

/* Signals for a group of processes are the agent's to follow: its readers end with it. The guard keeps the agent's log. */
static void become_guard(struct file_keeper *k, int fd)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_NAME, "tutti-guard");
	open_null(STDIN_FILENO);
	open_null(STDOUT_FILENO);
	dup2(fd, 3);
	(void)!chdir("/");
	for (int i = 4; i < 1024; i++)
		close(i);
	k->fd = 3;
	guard(k);
}

static int share(struct file_keeper *k, struct err *e)
{
	k->shared = mmap(NULL, k->helper->shared_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k->shared != MAP_FAILED)
		return 0;
	k->shared = NULL;
	return err_errno(e, "memory for processes that can be given up");
}

int file_keeper_start(struct file_keeper **out, const struct file_helper *helper, struct err *e)
{
	struct file_keeper *k = xcalloc(1, sizeof(*k));
	int fds[2] = { -1, -1 }, rc = 0;
	pid_t pid = 0;

	k->fd = -1;
	k->helper = helper;
	if (helper)
		rc = share(k, e);
	if (!rc && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		rc = err_errno(e, "a socket for the reader of files");
	if (!rc && (pid = fork()) < 0)
		rc = err_errno(e, "starting the reader of files");
	if (!rc && !pid)
		become_guard(k, fds[1]);
	k->fd = fds[0];
	if (fds[1] >= 0)
		close(fds[1]);
	if (rc)
		file_keeper_free(k);
	else
		*out = k;
	return rc;
}

void file_keeper_free(struct file_keeper *k)
{
	if (!k)
		return;
	if (k->fd >= 0)
		close(k->fd);
	if (k->shared)
		munmap(k->shared, k->helper->shared_bytes);
	free(k);
}

static int send_socket(int to, int fd, char byte)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	return sendmsg(to, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static int start(const struct file_keeper *k, int type, char kind, struct err *e)
{
	int fds[2], rc = 0;

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds))
		return err_errno(e, "a socket for a reader of files");
	if (send_socket(k->fd, fds[1], kind))
		rc = err_errno(e, "asking for a reader of files");
	close(fds[1]);
	if (!rc)
		return fds[0];
	close(fds[0]);
	return rc;
}

int file_keeper_reader(const struct file_keeper *k, struct err *e)
{
	return start(k, SOCK_SEQPACKET, READER, e);
}

int file_keeper_helper(const struct file_keeper *k, struct err *e)
{
	return start(k, SOCK_STREAM, HELPER, e);
}

void *file_keeper_shared(const struct file_keeper *k)
{
	return k->shared;
}
