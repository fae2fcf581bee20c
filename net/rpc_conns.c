/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the connections of a server's port; rpc_judge.c bounds what they take.
 *
 * Core 1.51 has no bound for the connections of an address, for the time that one connection keeps core's
 * only thread busy, nor for a message before it is complete. So this file inspects the sockets itself,
 * which it finds among the descriptors of this process. One inspection of all sockets is a look. A look
 * begins each time core's thread has worked for RPC_WORK_NS, and regularly while guests owe their first
 * message. It counts what each connection has sent, and how much of that belongs to no whole message yet.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_conns_impl.h"

#define FIRST_LOOK_NS (10 * NS_PER_MS) /* least time between two looks */
/* time between looks while guests owe their first message */
#define AWAIT_LOOK_NS (100 * NS_PER_MS)
#define LOOK_SHARE    40 /* looks take at most one LOOK_SHARE-th of the time */
/* time of a look in one turn of the loop; 10,000 connections take 70 ms in all */
#define LOOK_TURN_NS (2 * NS_PER_MS)
#define LOOK_SOCKETS 100 /* descriptors that collect() examines before it looks at the clock */
#define MORE_SOCKETS 64 /* for which a look has room at first, beyond those of the look before */
#define HOLE	     512 /* after this many free descriptors in a row no more are expected */
/* Connections that wait to be accepted. Core sets 4,096: those of one flood kept its thread busy for seconds before the
 * address was banned. A peer that finds no place tries again after a second. */
#define BACKLOG	  512
#define ENDED_MAX 16384 /* more ended calls than this begin a look */
/* a connection that has sent this since the look before is inspected closely */
#define MOVED_BYTES ((uint64_t)16 << 10)
/* frames and headers of a call that brought a whole message */
#define CALL_BYTES 1024

static void on_look(void *arg);

/* ---- addresses ---- */

bool rpc_end_of(const struct sockaddr *address, struct rpc_end *out)
{
	memset(out, 0, sizeof(*out));
	if (address->sa_family == AF_INET)
		out->port = ntohs(((const struct sockaddr_in *)address)->sin_port);
	else if (address->sa_family == AF_INET6)
		out->port = ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
	else
		return false;
	peers_key(address, out->key);
	return true;
}

int rpc_end_compare(const struct rpc_end *a, const struct rpc_end *b)
{
	return memcmp(a, b, sizeof(*a));
}

static int compare_seen(const void *a, const void *b)
{
	return rpc_end_compare(&((const struct socket_seen *)a)->end,
			       &((const struct socket_seen *)b)->end);
}

static int compare_calls(const void *a, const void *b)
{
	return rpc_end_compare(&((const struct call_seen *)a)->end,
			       &((const struct call_seen *)b)->end);
}

bool rpc_end_of_fd(int fd, int (*name)(int, struct sockaddr *, socklen_t *), struct rpc_end *out)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof(address);

	return !name(fd, (struct sockaddr *)&address, &len) &&
	       rpc_end_of((struct sockaddr *)&address, out);
}

/* ---- looking ---- */

static void count_bytes(struct socket_seen *s)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int unread = 0;

	s->read = s->unread = 0;
	if (getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len) ||
	    ioctl(s->fd, SIOCINQ, &unread) || info.tcpi_bytes_received < (uint64_t)unread)
		return;
	s->unread = (uint64_t)unread;
	s->read = info.tcpi_bytes_received - s->unread;
}

static void list_calls(struct rpc_conns *cs)
{
	cs->n_calls = cs->n_open;
	cs->calls = xmalloc((cs->n_calls + 1) * sizeof(*cs->calls));
	if (cs->n_calls)
		memcpy(cs->calls, cs->open, cs->n_calls * sizeof(*cs->calls));
	sort_array(cs->calls, cs->n_calls, sizeof(*cs->calls), compare_calls);
	sort_array(cs->ended, cs->n_ended, sizeof(*cs->ended), compare_calls);
}

static void add_seen(struct rpc_conns *cs, const struct socket_seen *s)
{
	if (cs->n_seen == cs->cap) {
		cs->cap *= 2;
		cs->seen = xrealloc(cs->seen, cs->cap * sizeof(*cs->seen));
	}
	cs->seen[cs->n_seen++] = *s;
}

/* Examines the next LOOK_SOCKETS descriptors. As every step of a look, returns true when it is done. */
static bool collect(struct rpc_conns *cs)
{
	struct look *l = &cs->look;
	struct rpc_end local;

	for (int end = l->fd + LOOK_SOCKETS; l->fd < end && l->hole < HOLE; l->fd++) {
		struct socket_seen s = { .fd = l->fd };

		errno = 0;
		if (!rpc_end_of_fd(l->fd, getsockname, &local) || local.port != cs->port ||
		    !rpc_end_of_fd(l->fd, getpeername, &s.end)) {
			l->hole = errno == EBADF ? l->hole + 1 : 0;
			continue;
		}
		l->hole = 0;
		count_bytes(&s);
		add_seen(cs, &s);
	}
	return l->hole >= HOLE;
}

static bool sort_seen(struct rpc_conns *cs)
{
	sort_array(cs->seen, cs->n_seen, sizeof(*cs->seen), compare_seen);
	return true;
}

/* The calls of this connection in a list that is sorted by end, from `*at` on; the next connection's follow. */
static size_t calls_of(const struct socket_seen *s, const struct call_seen *list, size_t n,
		       size_t *at)
{
	size_t first;

	while (*at < n && rpc_end_compare(&list[*at].end, &s->end) < 0)
		(*at)++;
	first = *at;
	while (*at < n && !rpc_end_compare(&list[*at].end, &s->end))
		(*at)++;
	return first;
}

/* What a call took that has brought so many bytes of whole messages. */
static uint64_t with_frames(uint64_t received)
{
	return received ? received + CALL_BYTES : 0;
}

/* All lists are sorted by struct rpc_end. */
static void mark_calls(struct rpc_conns *cs)
{
	int64_t since_ns = loop_now_ns(cs->loop) - NS_PER_S;
	size_t live = 0, ended = 0;

	for (size_t i = 0; i < cs->n_seen; i++) {
		struct socket_seen *s = &cs->seen[i];

		for (size_t k = calls_of(s, cs->ended, cs->n_ended, &ended); k < ended; k++) {
			s->whole += cs->ended[k].received;
			s->settled += with_frames(cs->ended[k].received);
			s->known |= cs->ended[k].admitted;
			s->guests += !cs->ended[k].admitted && !cs->ended[k].received &&
				     cs->ended[k].ended_ns > since_ns;
		}
		s->delivered = s->whole;
		s->settled = s->settled < s->read ? s->settled : s->read;
		s->answered = s->settled;
		for (size_t k = calls_of(s, cs->calls, cs->n_calls, &live); k < live; k++) {
			s->delivered += cs->calls[k].received;
			s->answered += with_frames(cs->calls[k].received);
			s->admitted |= cs->calls[k].admitted;
			s->guests += !cs->calls[k].admitted;
		}
		s->known |= s->admitted;
	}
	cs->n_ended = 0;
}

/* Both lists are sorted by struct rpc_end. */
static void remember(struct rpc_conns *cs)
{
	const struct socket_seen *was = cs->look.before, *end = was + cs->look.n_before;

	for (size_t i = 0; i < cs->n_seen; i++) {
		while (was < end && compare_seen(was, &cs->seen[i]) < 0)
			was++;
		if (was < end && !compare_seen(was, &cs->seen[i])) {
			cs->seen[i].known = was->known;
			cs->seen[i].charged = was->charged;
			cs->seen[i].work_ns = was->work_ns;
			cs->seen[i].whole = was->whole;
			cs->seen[i].settled = was->settled;
			cs->seen[i].moved = cs->seen[i].read - was->read > MOVED_BYTES;
		}
	}
}

/* ---- messages that are not complete ---- */

/* The bytes that a connection has sent of incomplete messages. For each of its calls: what has come since its last
 * complete message, less the complete messages of the other calls; headers and frames are part of that. The result
 * is the largest of these, so that a second call cannot hide one that never completes its message. */
static uint64_t measure_unfinished(const struct socket_seen *s, struct call_seen *open,
				   const struct call_seen *calls, size_t n)
{
	uint64_t more = s->read > s->delivered ? s->read - s->delivered : 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		const struct call_seen *c = &calls[i];

		if (!c->looked_at || c->received != c->looked_received) {
			struct call_seen *kept = &open[c->call->seat];

			kept->looked_at = true;
			kept->looked_received = c->received;
			kept->more_then = more;
		} else if (more > c->more_then && more - c->more_then > most) {
			most = more - c->more_then;
		}
	}
	return most;
}

/* Reads the count of a socket again if it moved much, since the look has taken several turns of the loop. */
static void measure_all(struct rpc_conns *cs)
{
	size_t live = 0;

	for (size_t i = 0; i < cs->n_seen; i++) {
		struct socket_seen *s = &cs->seen[i];
		size_t first = calls_of(s, cs->calls, cs->n_calls, &live);
		bool moved = s->moved;

		if (!s->known)
			continue;
		for (size_t k = first; k < live; k++)
			moved |= cs->calls[k].received - cs->calls[k].looked_received > MOVED_BYTES;
		if (moved)
			count_bytes(s);
		s->unfinished = measure_unfinished(s, cs->open, cs->calls + first, live - first);
	}
}

static void look_at(struct rpc_conns *cs, int64_t at_ns)
{
	if (at_ns < cs->not_before_ns)
		at_ns = cs->not_before_ns;
	if (!loop_timer_armed(&cs->timer) || cs->timer.at_mono_ns > at_ns)
		loop_timer_at(cs->loop, &cs->timer, at_ns, on_look, cs);
}

/* list_calls() comes late so that it includes calls that were admitted while descriptors were collected. */
static bool judge(struct rpc_conns *cs)
{
	rpc_guests_counted(cs->server, cs->n_seen);
	list_calls(cs);
	remember(cs);
	mark_calls(cs);
	measure_all(cs);
	rpc_judge(cs);
	free(cs->calls); /* a megabyte, with 10,000 hosts */
	cs->calls = NULL;
	return true;
}

static bool (*const steps[])(struct rpc_conns *cs) = { collect, sort_seen, judge };

static void end_look(struct rpc_conns *cs)
{
	struct look *l = &cs->look;
	int64_t wait_ns = LOOK_SHARE * l->took_ns;

	free(l->before);
	l->before = NULL;
	l->is_under_way = false;
	cs->not_before_ns = now_mono_ns() + (wait_ns > FIRST_LOOK_NS ? wait_ns : FIRST_LOOK_NS);
	if (cs->n_deaf_to || cs->server->n_awaited)
		look_at(cs, now_mono_ns() + AWAIT_LOOK_NS);
}

static void go_on_looking(void *arg)
{
	struct rpc_conns *cs = arg;
	struct look *l = &cs->look;
	int64_t begin_ns = now_thread_cpu_ns(), took_ns = 0;
	bool is_next = false;

	/* Each step begins in a turn of its own: judge() takes all connections at once. */
	while (!is_next && took_ns < LOOK_TURN_NS) {
		is_next = steps[l->step](cs);
		took_ns = now_thread_cpu_ns() - begin_ns;
	}
	l->step += is_next;
	l->took_ns += took_ns;
	if (l->step == ARRAY_SIZE(steps))
		end_look(cs);
	else
		loop_timer_in(cs->loop, &l->timer, 0, go_on_looking, cs);
}

static void look(struct rpc_conns *cs, bool still_busy)
{
	if (cs->look.is_under_way)
		return;
	cs->look = (struct look){
		.is_under_way = true,
		.still_busy = still_busy,
		.fd = 3,
		.before = cs->seen,
		.n_before = cs->n_seen,
	};
	/* about as many as before, and no more: with 10,000 connections it has a megabyte */
	cs->cap = cs->n_seen + MORE_SOCKETS;
	cs->seen = xmalloc(cs->cap * sizeof(*cs->seen));
	cs->n_seen = 0;
	go_on_looking(cs);
}

static void on_look(void *arg)
{
	look(arg, false);
}

/* ---- occasions ---- */

void rpc_conns_begin(struct rpc_conns *cs, struct rpc_call *c)
{
	if (cs->n_open == cs->open_cap) {
		cs->open_cap = cs->n_open ? 2 * cs->n_open : 64;
		cs->open = xrealloc(cs->open, cs->open_cap * sizeof(*cs->open));
	}
	c->seat = cs->n_open;
	cs->open[cs->n_open++] = (struct call_seen){ .call = c, .end = c->from };
	look_at(cs, now_mono_ns() + AWAIT_LOOK_NS);
}

void rpc_conns_received(struct rpc_conns *cs, const struct rpc_call *c, size_t message_len)
{
	cs->open[c->seat].received += RPC_PREFIX_BYTES + message_len;
}

void rpc_conns_admit(struct rpc_conns *cs, const struct rpc_call *c)
{
	cs->open[c->seat].admitted = true;
}

void rpc_conns_end(struct rpc_conns *cs, const struct rpc_call *c)
{
	struct call_seen *o = &cs->open[c->seat];

	if (cs->n_ended == ENDED_MAX)
		look(cs, false);
	if (cs->n_ended == cs->ended_cap) {
		cs->ended_cap = cs->n_ended ? 2 * cs->n_ended : 64;
		cs->ended = xrealloc(cs->ended, cs->ended_cap * sizeof(*cs->ended));
	}
	o->call = NULL;
	o->ended_ns = loop_now_ns(cs->loop);
	cs->ended[cs->n_ended++] = *o;
	if (c->seat == --cs->n_open)
		return;
	*o = cs->open[cs->n_open];
	o->call->seat = c->seat;
}

void rpc_conns_worked(struct rpc_conns *cs, unsigned int returns)
{
	bool still_busy = cs->returns == returns;

	if (cs->look.is_under_way || now_mono_ns() < cs->not_before_ns)
		return;
	cs->returns = returns;
	look(cs, still_busy);
}

struct rpc_conns *rpc_conns_next(const struct rpc_conns *cs)
{
	return cs->next;
}

/* Bounds what the kernel holds for core to accept: listen() on a socket that listens changes only that. Called on a
 * duplicate: core closes its descriptor unseen by ThreadSanitizer, which would then take the next use of that
 * number for a race with this one. */
static void limit_backlog(int listener, int port)
{
	int fd = fcntl(listener, F_DUPFD_CLOEXEC, 0);

	if (fd < 0 || listen(fd, BACKLOG))
		log_warn("NET-BACKLOG", "port=%d reason=\"%s\"", port, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Finds the server's listening sockets. */
static void find_listeners(struct rpc_conns *cs)
{
	struct rpc_end local;

	for (int fd = 3, hole = 0; hole < HOLE && cs->n_listeners < ARRAY_SIZE(cs->listeners);
	     fd++) {
		int listens = 0;
		socklen_t len = sizeof(listens);

		hole = fcntl(fd, F_GETFD) < 0 ? hole + 1 : 0;
		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && listens &&
		    rpc_end_of_fd(fd, getsockname, &local) && local.port == cs->port) {
			cs->listeners[cs->n_listeners++] = fd;
			limit_backlog(fd, cs->port);
		}
	}
}

struct rpc_conns *rpc_conns_new(struct rpc_server *s, int port, size_t per_address)
{
	struct rpc_conns *cs = xcalloc(1, sizeof(*cs));

	cs->server = s;
	cs->loop = s->rpc->loop;
	cs->port = port;
	cs->per_address = per_address ? per_address : SIZE_MAX / 2;
	find_listeners(cs);
	cs->next = s->rpc->conns;
	s->rpc->conns = cs;
	return cs;
}

void rpc_conns_free(struct rpc_conns *cs)
{
	struct rpc_conns **at;

	if (!cs)
		return;
	at = &cs->server->rpc->conns;
	while (*at != cs)
		at = &(*at)->next;
	*at = cs->next;
	loop_timer_cancel(cs->loop, &cs->timer);
	free(cs->ended);
	loop_timer_cancel(cs->loop, &cs->look.timer);
	free(cs->look.before);
	free(cs->open);
	free(cs->seen);
	free(cs);
}
