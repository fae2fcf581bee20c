/* SPDX-License-Identifier: Apache-2.0 */
#include "net/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define PER_TURN 64 /* datagrams per turn of the loop */

struct datagram {
	int fd;
	char *path; /* of the file to remove; NULL for an abstract name */
	struct loop_watch *watch;
	bool accepts_files;
	datagram_fn fn;
	void *arg;
};

static int make_address(const char *path, struct sockaddr_un *addr, socklen_t *len, struct err *e)
{
	size_t size = strlen(path) + 1;

	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (size > sizeof(addr->sun_path))
		return err_set(e, ERR_INVALID, "%s: the path of a socket has %zu bytes at most",
			       path, sizeof(addr->sun_path) - 1);
	memcpy(addr->sun_path, path, size);
	if (*path == '@')
		addr->sun_path[0] = 0;
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
	return 0;
}

/* Whether a program listens at the address. */
static bool is_taken(const struct sockaddr_un *addr, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool taken = fd >= 0 && !connect(fd, (const struct sockaddr *)addr, len);

	if (fd >= 0)
		close(fd);
	return taken;
}

static int bind_address(int fd, const char *path, struct err *e)
{
	struct sockaddr_un addr;
	struct stat st;
	socklen_t len = 0;
	int rc = make_address(path, &addr, &len, e);

	if (rc)
		return rc;
	if (*path != '@' && !lstat(path, &st) && S_ISSOCK(st.st_mode) && !is_taken(&addr, len))
		unlink(path);
	if (!bind(fd, (struct sockaddr *)&addr, len))
		return 0;
	if (errno == EADDRINUSE)
		return err_set(e, ERR_BUSY, "another program listens at %s", path);
	return err_errno(e, "listening at %s", path);
}

static int64_t since_ns(const struct timespec *sent)
{
	int64_t waited_ns = now_real_ns() - (sent->tv_sec * NS_PER_S + sent->tv_nsec);

	return waited_ns > 0 ? waited_ns : 0;
}

/* Takes the first descriptor and closes a second one. The control buffer has room for no more than two. */
static int take_file(const struct cmsghdr *c)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fds[2] = { -1, -1 };

	memcpy(fds, CMSG_DATA(c), (n < 2 ? n : 2) * sizeof(int));
	if (fds[1] >= 0)
		close(fds[1]);
	return fds[0];
}

/* Who sent it, and when. */
static void read_ancillary(struct msghdr *msg, struct datagram_from *from)
{
	struct timespec sent;
	struct cmsghdr *c;
	struct ucred cred;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
			from->pid = cred.pid;
			from->uid = cred.uid;
		} else if (c->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&sent, CMSG_DATA(c), sizeof(sent));
			from->waited_ns = since_ns(&sent);
		} else if (c->cmsg_type == SCM_RIGHTS) {
			from->fd = take_file(c);
		}
	}
}

/* Without room for them in `control` the kernel drops descriptors. */
#define CONTROL_BYTES (CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(struct timespec)))

/* False if there is none left. */
static bool read_one(struct datagram *d)
{
	uint8_t data[DATAGRAM_MAX_BYTES];
	struct sockaddr_un addr;
	union {
		char bytes[CONTROL_BYTES + CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = { .msg_name = &addr,
			      .msg_namelen = sizeof(addr),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = d->accepts_files ? sizeof(control)
								 : CONTROL_BYTES };
	struct datagram_from from = { .addr = &addr, .fd = -1 };
	ssize_t n = recvmsg(d->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return false;
	from.addr_len = msg.msg_namelen;
	read_ancillary(&msg, &from);
	if (msg.msg_flags & MSG_TRUNC) {
		if (from.fd >= 0)
			close(from.fd);
		return true;
	}
	d->fn(d->arg, data, (size_t)n, &from);
	return true;
}

static void on_readable(void *arg, uint32_t events)
{
	(void)events;
	for (int i = 0; i < PER_TURN && read_one(arg); i++)
		;
}

int datagram_listen(struct datagram **out, struct loop *loop, const char *path, datagram_fn fn,
		    void *arg, struct err *e)
{
	struct datagram *d = xcalloc(1, sizeof(*d));
	int on = 1, rc = 0;

	d->fn = fn;
	d->arg = arg;
	d->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->fd < 0 || setsockopt(d->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    setsockopt(d->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		rc = err_errno(e, "making a socket");
	if (!rc)
		rc = bind_address(d->fd, path, e);
	if (!rc && *path != '@') {
		d->path = xstrdup(path);
		if (chmod(path, 0666)) /* everybody may send: the kernel says who it is */
			rc = err_errno(e, "opening %s to all users", path);
	}
	if (!rc)
		rc = loop_watch(loop, d->fd, EPOLLIN, on_readable, d, &d->watch, e);
	if (rc) {
		datagram_free(d);
		return rc;
	}
	*out = d;
	return 0;
}

void datagram_free(struct datagram *d)
{
	if (!d)
		return;
	loop_unwatch(d->watch);
	if (d->fd >= 0)
		close(d->fd);
	if (d->path)
		unlink(d->path);
	free(d->path);
	free(d);
}

void datagram_accept_files(struct datagram *d)
{
	d->accepts_files = true;
}

/* A descriptor of the sender's socket in this one's folder; -1 = none. A sender names any path, and may put a link there later: to look it up
 * might never end. So its folders are not looked at, no link is followed, and only a socket of the sender's user is taken. */
static int open_sender(const struct datagram *d, const char *path, uint32_t uid)
{
	const char *slash = d->path ? strrchr(d->path, '/') : NULL;
	const char *name = strrchr(path, '/');
	char own[2 * sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	struct statx st;
	int fd;

	if (!slash || !name)
		return -1;
	snprintf(own, sizeof(own), "%.*s%s", (int)(slash - d->path), d->path, name);
	fd = open(own, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_UID, &st) &&
	    S_ISSOCK(st.stx_mode) && st.stx_uid == uid)
		return fd;
	close(fd);
	return -1;
}

/* False: it is not sent. */
static bool send_to(const struct datagram *d, int fd, const struct datagram_from *from,
		    const void *data, size_t len)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	socklen_t to_len = (socklen_t)from->addr_len;
	char path[sizeof(to.sun_path) + 1] = "";
	int sender = -1;
	bool sent;

	if (from->addr_len <= offsetof(struct sockaddr_un, sun_path) || from->addr_len > sizeof(to))
		return false;
	memcpy(&to, from->addr, from->addr_len);
	if (to.sun_path[0]) {
		memcpy(path, to.sun_path, from->addr_len - offsetof(struct sockaddr_un, sun_path));
		sender = open_sender(d, path, from->uid);
		if (sender < 0)
			return false;
		snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d", sender);
		to_len = sizeof(to);
	}
	sent = sendto(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, to_len) >=
	       0;
	if (sender >= 0)
		close(sender);
	return sent;
}

void datagram_reply(struct datagram *d, const struct datagram_from *from, const void *data,
		    size_t len)
{
	(void)send_to(d, d->fd, from, data, len);
}

/* The kernel gives an abstract name; a file's is needed for a moment only. */
static int bind_answer(int fd, const struct datagram *d)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int n, rc;

	if (!d->path)
		return bind(fd, (struct sockaddr *)&addr, sizeof(addr.sun_family));
	n = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s.answer", d->path);
	if ((size_t)n >= sizeof(addr.sun_path))
		return -1;
	unlink(addr.sun_path);
	rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
	unlink(addr.sun_path);
	return rc;
}

int datagram_answer(struct datagram *d, const struct datagram_from *from, const void *data,
		    size_t len)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && !bind_answer(fd, d) && send_to(d, fd, from, data, len))
		return fd;
	if (fd >= 0)
		close(fd);
	datagram_reply(d, from, data, len);
	return -1;
}

bool datagram_is_read(int fd)
{
	int bytes = 0;

	return ioctl(fd, SIOCOUTQ, &bytes) || !bytes;
}
