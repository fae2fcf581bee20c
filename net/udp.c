/* SPDX-License-Identifier: Apache-2.0 */
#include "net/udp.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/socket.h"

#define DATAGRAM_BYTES	2048 /* more is cut, and no probe any more */
#define BATCH		64 /* datagrams in one turn of the loop */
#define RECEIVE_BYTES	(1 << 20)
#define STAMP_WINDOW_NS NS_PER_S
#define SLEW_PPM	600 /* the kernel steers the wall clock by 500 at most */

struct clock_pair {
	int64_t raw, real, width_ns;
};

struct udp {
	int fd;
	struct loop_watch *watch;
	udp_fn fn;
	void *arg;
	struct clock_pair last; /* to see the wall clock step */
	bool reading, freed; /* freed inside its own callback */
};

static struct clock_pair read_pair(void)
{
	struct clock_pair p;

	now_pair_ns(&p.raw, &p.real, &p.width_ns);
	return p;
}

/* The wall clock moved against raw by more than steering explains: its stamps mean nothing. */
static bool has_stepped(const struct clock_pair *a, const struct clock_pair *b)
{
	int64_t moved = (b->real - b->raw) - (a->real - a->raw);
	int64_t allowed = (b->raw - a->raw) / 1000000 * SLEW_PPM + a->width_ns + b->width_ns +
			  NS_PER_US;

	return moved > allowed || moved < -allowed;
}

/* The kernel's receive stamp (wall clock), 0 if there is none. */
static int64_t kernel_stamp(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct scm_timestamping stamps;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING ||
		    c->cmsg_len < CMSG_LEN(sizeof(stamps)))
			continue;
		memcpy(&stamps, CMSG_DATA(c), sizeof(stamps));
		return stamps.ts[0].tv_sec * NS_PER_S + stamps.ts[0].tv_nsec;
	}
	return 0;
}

/* When the datagram came, never early: the pair's whole width is added to the kernel's stamp, and
 * what then is later than our own reading, or implausibly older, is not believed. */
static int64_t arrival(struct udp *u, int64_t stamp_real_ns, int64_t read_raw_ns)
{
	struct clock_pair now, before = u->last;
	int64_t raw_ns;

	if (!stamp_real_ns)
		return read_raw_ns;
	now = u->last = read_pair();
	raw_ns = now.raw - (now.real - stamp_real_ns) + now.width_ns;
	if (has_stepped(&before, &now) || raw_ns > read_raw_ns ||
	    raw_ns < read_raw_ns - STAMP_WINDOW_NS)
		return read_raw_ns;
	return raw_ns;
}

static void udp_destroy(struct udp *u)
{
	if (u->fd >= 0)
		close(u->fd);
	free(u);
}

/* False when there is nothing more to read. */
static bool read_one(struct udp *u)
{
	struct sockaddr_storage addr;
	uint8_t data[DATAGRAM_BYTES];
	union {
		char bytes[CMSG_SPACE(sizeof(struct scm_timestamping)) + 64];
		struct cmsghdr align;
	} control;
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = {
		.msg_name = &addr,
		.msg_namelen = sizeof(addr),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct udp_from from = { &addr, 0 };
	ssize_t n = recvmsg(u->fd, &msg, MSG_DONTWAIT);
	int64_t read_raw_ns = now_raw_ns();

	/* ECONNREFUSED and the like tell of an earlier send: nothing to do about a lost probe. */
	if (n < 0)
		return errno != EAGAIN;
	from.addr_len = msg.msg_namelen;
	u->fn(u->arg, data, (size_t)n, arrival(u, kernel_stamp(&msg), read_raw_ns), &from);
	return true;
}

static void on_readable(void *arg, uint32_t events)
{
	struct udp *u = arg;

	(void)events;
	u->reading = true;
	for (int i = 0; i < BATCH && !u->freed; i++) {
		if (!read_one(u))
			break;
	}
	u->reading = false;
	if (u->freed)
		udp_destroy(u);
}

static void ask_for_stamps(int fd)
{
	int what = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	int bytes = RECEIVE_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)))
		log_warn("UDP-STAMPS", "reason=\"no kernel receive stamps: %s\"",
			 strerrordesc_np(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/* Takes fd. */
static int udp_new(struct udp **out, struct loop *loop, int fd, udp_fn fn, void *arg, struct err *e)
{
	struct udp *u = xcalloc(1, sizeof(*u));
	int rc;

	ask_for_stamps(fd);
	u->fd = fd;
	u->fn = fn;
	u->arg = arg;
	u->last = read_pair();
	rc = loop_watch(loop, fd, EPOLLIN, on_readable, u, &u->watch, e);
	if (rc)
		udp_destroy(u);
	else
		*out = u;
	return rc;
}

int udp_listen(struct udp **out, struct loop *loop, const char *address, udp_fn fn, void *arg,
	       int *port, struct err *e)
{
	int fd;
	int rc = socket_bind(address, SOCK_DGRAM, &fd, port, e);

	return rc ? rc : udp_new(out, loop, fd, fn, arg, e);
}

int udp_dial(struct udp **out, struct loop *loop, const char *host, int port, udp_fn fn, void *arg,
	     struct err *e)
{
	int fd;
	int rc = socket_connect(host, port, SOCK_DGRAM, &fd, e);

	return rc ? rc : udp_new(out, loop, fd, fn, arg, e);
}

void udp_free(struct udp *u)
{
	if (!u)
		return;
	loop_unwatch(u->watch);
	u->freed = true;
	if (!u->reading)
		udp_destroy(u);
}

void udp_send(struct udp *u, const void *data, size_t len)
{
	(void)!send(u->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void udp_send_to(struct udp *u, const struct udp_from *to, const void *data, size_t len)
{
	(void)!sendto(u->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL, to->addr,
		      (socklen_t)to->addr_len);
}
