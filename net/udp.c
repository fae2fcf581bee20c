/* SPDX-License-Identifier: Apache-2.0 */
#include "net/udp.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/socket.h"

#define DATAGRAM_BYTES	256 /* longer ones are cut: they are no probes anyway */
#define BATCH		16 /* messages per system call */
#define BATCHES		4 /* per turn of the loop */
#define RECEIVE_BYTES	(1 << 20)
#define STAMP_WINDOW_NS NS_PER_S
/* the kernel steers the wall clock by at most 500; this leaves a reserve */
#define SLEW_PPM  600
#define RX_STAMPS (SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define TX_STAMPS (SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY)

struct udp {
	int fd;
	struct loop_watch *watch;
	udp_fn fn;
	udp_sent_fn sent_fn; /* NULL = departures are not stamped */
	void *arg;
	struct clock_pair last; /* to detect a step of the wall clock */
	uint32_t next_id; /* number of the next datagram, counted as the kernel counts */
	uint32_t first_id; /* next_id when the kernel's count last began at 0 */
	int64_t counted_raw_ns; /* departures before then were numbered by an earlier count */
	int64_t steady_raw_ns; /* stamps before then may be from before the wall clock was set */
	bool reading, freed; /* freed inside its own callback */
};

/* The kernel's data beside a datagram. */
struct stamp {
	int64_t real_ns; /* 0 = none */
	uint32_t id; /* of a departure */
	bool departure;
};

/* Messages of one socket and the memory for them. */
struct batch {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_storage addrs[BATCH];
	uint8_t data[BATCH][DATAGRAM_BYTES];
	union {
		char bytes[256];
		struct cmsghdr align;
	} control[BATCH];
	int n;
	int64_t read_raw_ns; /* right after they were read */
};

/* ---- the kernel's stamps ---- */

static bool is_departure(const struct cmsghdr *c)
{
	return (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
	       (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR);
}

static struct stamp stamp_of(struct msghdr *msg)
{
	struct sock_extended_err why;
	struct scm_timestamping stamps;
	struct stamp out = { 0 };

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING &&
		    c->cmsg_len >= CMSG_LEN(sizeof(stamps))) {
			memcpy(&stamps, CMSG_DATA(c), sizeof(stamps));
			out.real_ns = stamps.ts[0].tv_sec * NS_PER_S + stamps.ts[0].tv_nsec;
		} else if (is_departure(c) && c->cmsg_len >= CMSG_LEN(sizeof(why))) {
			memcpy(&why, CMSG_DATA(c), sizeof(why));
			out.id = why.ee_data;
			out.departure = why.ee_errno == ENOMSG &&
					why.ee_origin == SO_EE_ORIGIN_TIMESTAMPING &&
					why.ee_info == SCM_TSTAMP_SND;
		}
	}
	return out;
}

/* After the wall clock was set, its earlier stamps are invalid; some of them are still to be read. */
static void renew_pair(struct udp *u)
{
	struct clock_pair before = u->last;

	u->last = now_pair();
	if (clock_pair_has_step(&before, &u->last))
		u->steady_raw_ns = u->last.raw_ns + STAMP_WINDOW_NS;
}

/*
 * Translates a stamp to the raw clock, with its largest error: half the width of the pair, and the
 * largest movement of the wall clock by steering since. False for an impossible stamp.
 */
static bool raw_of_stamp(const struct udp *u, int64_t stamp_real_ns, int64_t *raw_ns,
			 int64_t *wrong_ns)
{
	const struct clock_pair *now = &u->last;
	int64_t age_ns = now->real_ns - stamp_real_ns;

	if (!stamp_real_ns || age_ns < 0 || age_ns > STAMP_WINDOW_NS)
		return false;
	*raw_ns = now->raw_ns - age_ns;
	*wrong_ns = now->width_ns / 2 + age_ns * SLEW_PPM / 1000000 + 2;
	return *raw_ns >= u->steady_raw_ns;
}

/* ---- reading ---- */

static void udp_destroy(struct udp *u)
{
	if (u->fd >= 0)
		close(u->fd);
	free(u);
}

/* False when there is nothing to read. A batch that is not full is the last one: no further call is
 * needed. */
static bool read_batch(const struct udp *u, struct batch *b, int flags)
{
	for (int i = 0; i < BATCH; i++) {
		b->iov[i] = (struct iovec){ b->data[i], DATAGRAM_BYTES };
		b->msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &b->addrs[i],
			.msg_namelen = sizeof(b->addrs[i]),
			.msg_iov = &b->iov[i],
			.msg_iovlen = 1,
			.msg_control = b->control[i].bytes,
			.msg_controllen = sizeof(b->control[i]),
		};
	}
	b->n = recvmmsg(u->fd, b->msgs, BATCH, flags | MSG_DONTWAIT, NULL);
	/* ECONNREFUSED and the like concern an earlier send: a lost probe needs no action. */
	if (b->n < 0 && errno != EAGAIN)
		b->n = recvmmsg(u->fd, b->msgs, BATCH, flags | MSG_DONTWAIT, NULL);
	b->read_raw_ns = now_raw_ns();
	return b->n > 0;
}

static void report_departure(struct udp *u, struct msghdr *msg)
{
	struct stamp s = stamp_of(msg);
	int64_t raw_ns, wrong_ns;

	if (s.departure && u->sent_fn && raw_of_stamp(u, s.real_ns, &raw_ns, &wrong_ns) &&
	    raw_ns >= u->counted_raw_ns)
		u->sent_fn(u->arg, u->first_id + s.id, raw_ns - wrong_ns);
}

/* Empties the queue of departures on every event of the socket: a stamp left in it would make the next wait
 * return at once. */
static void read_departures(struct udp *u)
{
	struct batch b;

	for (int k = 0; k < BATCHES && !u->freed && read_batch(u, &b, MSG_ERRQUEUE); k++) {
		renew_pair(u);
		for (int i = 0; i < b.n && !u->freed; i++)
			report_departure(u, &b.msgs[i].msg_hdr);
		if (b.n < BATCH)
			break;
	}
}

static void report_arrival(struct udp *u, struct batch *b, int i)
{
	struct msghdr *msg = &b->msgs[i].msg_hdr;
	struct udp_from from = { .addr = &b->addrs[i], .addr_len = msg->msg_namelen };
	int64_t raw_ns, wrong_ns;

	from.kernel = raw_of_stamp(u, stamp_of(msg).real_ns, &raw_ns, &wrong_ns) &&
		      raw_ns + wrong_ns <= b->read_raw_ns;
	u->fn(u->arg, b->data[i], b->msgs[i].msg_len,
	      from.kernel ? raw_ns + wrong_ns : b->read_raw_ns, &from);
}

static void on_readable(void *arg, uint32_t events)
{
	struct udp *u = arg;
	struct batch b;

	(void)events;
	u->reading = true;
	for (int k = 0; k < BATCHES && !u->freed && read_batch(u, &b, 0); k++) {
		renew_pair(u);
		/* Datagrams that left before these arrived are in the queue by now, and reported first. */
		read_departures(u);
		for (int i = 0; i < b.n && !u->freed; i++)
			report_arrival(u, &b, i);
		if (b.n < BATCH)
			break;
	}
	read_departures(u);
	u->reading = false;
	if (u->freed)
		udp_destroy(u);
}

/* ---- life ---- */

static bool ask_for_stamps(int fd, int what)
{
	if (!setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)))
		return true;
	log_warn("UDP-STAMPS", "reason=\"no kernel stamps: %s\"", strerrordesc_np(errno));
	return false;
}

/* Takes fd. */
static int udp_new(struct udp **out, struct loop *loop, int fd, udp_fn fn, void *arg, struct err *e)
{
	struct udp *u = xcalloc(1, sizeof(*u));
	int bytes = RECEIVE_BYTES;
	int rc;

	ask_for_stamps(fd, RX_STAMPS);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	u->fd = fd;
	u->fn = fn;
	u->arg = arg;
	u->last = now_pair();
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

/* ---- sending ---- */

void udp_on_sent(struct udp *u, udp_sent_fn fn)
{
	if (ask_for_stamps(u->fd, RX_STAMPS | TX_STAMPS | SOF_TIMESTAMPING_OPT_ID))
		u->sent_fn = fn;
}

uint32_t udp_next_id(const struct udp *u)
{
	return u->next_id;
}

/*
 * A send has failed. It is not documented whether the kernel counts such a datagram, and a wrong number could
 * not be detected. So both counts start again; stamps of this instant and earlier have old numbers and are
 * ignored.
 */
static void restart_count(struct udp *u)
{
	if (!u->sent_fn)
		return;
	ask_for_stamps(u->fd, RX_STAMPS | TX_STAMPS);
	ask_for_stamps(u->fd, RX_STAMPS | TX_STAMPS | SOF_TIMESTAMPING_OPT_ID);
	u->first_id = u->next_id;
	u->counted_raw_ns = now_raw_ns() + STAMP_WINDOW_NS;
}

static void note_sent(struct udp *u, ssize_t n)
{
	u->next_id++;
	if (n < 0)
		restart_count(u);
}

void udp_send(struct udp *u, const void *data, size_t len)
{
	note_sent(u, send(u->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void udp_send_to(struct udp *u, const struct udp_from *to, const void *data, size_t len)
{
	note_sent(u, sendto(u->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL, to->addr,
			    (socklen_t)to->addr_len));
}
