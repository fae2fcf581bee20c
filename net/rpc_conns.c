/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds the unidentified connections of a server's port, which carry no admitted call.
 *
 * Core 1.51 has no bound for the connections of an address, for the time that one connection keeps core's
 * only thread busy, nor for a message before it is complete. So this file inspects the sockets itself,
 * which it finds among the descriptors of this process. One inspection of all sockets is a look. A look
 * begins each time core's thread has worked for RPC_WORK_NS, and regularly while guests owe their first
 * message. A connection that exceeds a bound is disconnected; core sees that as the peer's end. Its address
 * is banned for a time (rpc_bans.h): its unidentified connections are disconnected, and the kernel drops
 * new ones. The kernel also drops new connections of an address that has reached its limit of them. An
 * address that exceeded the limit is banned for a time, too.
 *
 * A look also measures what a known connection has sent of messages that are not complete, because the quota of
 * rpc_guests.c is one for all connections.
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
#include "net/listen_filter.h"
#include "net/rpc_bans.h"
#include "net/rpc_impl.h"

/* Bytes that the unidentified connections of an address may send: this, and MORE_BYTES for each that it may
 * have. */
#define ADDRESS_BYTES ((uint64_t)4 << 20)
#define MORE_BYTES    ((uint64_t)16 << 10)

/* Bytes of incomplete messages that the known connections of an address may have sent. An upload has hardly more
 * than one message of 1 MiB. */
#define UNFINISHED_BYTES ((uint64_t)12 << 20)
/* less than this of one connection does not count: frames and headers need it */
#define UNFINISHED_LEAST ((uint64_t)64 << 10)
/* a connection that has sent this since the look before is inspected closely */
#define MOVED_BYTES ((uint64_t)16 << 10)

/* The heat of a connection says for how long it has kept core's thread busy. Each look adds WARM or HOT, by
 * the bytes since the look before; a look that finds few bytes sets it to 0. */
#define WARM_BYTES 1024 /* more than this since the look before adds WARM */
/* more than this adds HOT; a flow-control window of core's has 64 kB */
#define HOT_BYTES ((uint64_t)32 << 10)
#define WARM	  1
#define HOT	  4
#define TOO_HOT	  8
/* the same for known connections: a message of 1 MiB keeps core busy for 2 or 3 looks */
#define KNOWN_TOO_HOT 60
#define FIRST_LOOK_NS (10 * NS_PER_MS) /* least time between two looks */
/* time between looks while guests owe their first message */
#define AWAIT_LOOK_NS (100 * NS_PER_MS)
#define LOOK_SHARE    20 /* looks take at most one LOOK_SHARE-th of the time */
/* time of a look in one turn of the loop; 10,000 connections take 70 ms in all */
#define LOOK_TURN_NS (2 * NS_PER_MS)
#define LOOK_SOCKETS 100 /* descriptors that collect() examines before it looks at the clock */
#define HOLE	     512 /* after this many free descriptors in a row no more are expected */
/* Connections that wait to be accepted. Core sets 4,096: those of one flood kept its thread busy for seconds before the
 * address was banned. A peer that finds no place tries again after a second. */
#define BACKLOG	  512
#define ENDED_MAX 16384 /* more ended calls than this begin a look */

/* One connection, as a look found it. */
struct socket_seen {
	struct rpc_end end;
	int fd;
	uint64_t read; /* bytes that core has read */
	uint64_t cooled; /* the same count when the heat was last changed */
	unsigned int heat;
	uint64_t whole; /* bytes of the whole messages of its calls that have ended */
	uint64_t delivered; /* the same of all its calls, ended or not */
	uint64_t unfinished; /* see measure_unfinished() */
	bool moved; /* MOVED_BYTES have come since the look before */
	bool admitted; /* it carries an admitted call */
	/* it carries or carried one: between two uploads an agent's connection carries none */
	bool known;
};

/* One call, as a look found it. */
struct call_seen {
	struct rpc_end end;
	struct rpc_call *call; /* NULL: it has ended */
	uint64_t received; /* bytes of whole messages */
	bool admitted;
};

/* With many connections, a look takes several turns of the loop. */
struct look {
	size_t step; /* in steps[] */
	bool is_under_way;
	bool worked, still_busy; /* see judge_heat() */
	/* the next descriptor to examine; how many free ones came in a row before it */
	int fd, hole;
	struct socket_seen *before; /* what the look before found */
	size_t n_before;
	int64_t took_ns;
	struct loop_timer timer;
};

struct rpc_conns {
	struct rpc_conns *next;
	struct rpc_server *server;
	struct loop *loop;
	int port;
	size_t per_address;
	struct loop_timer timer;
	struct look look;
	int64_t not_before_ns; /* when the next look may begin */
	unsigned int returns; /* rpc_work.returns when core's thread had last worked for a while */
	struct socket_seen *seen; /* at the last look, by address and port */
	size_t n_seen, cap;
	struct call_seen *calls; /* at the last look, by address and port */
	size_t n_calls, calls_cap;
	struct call_seen *ended; /* calls that ended since the last look */
	size_t n_ended, ended_cap;
	struct bans bans;
	uint8_t deaf_to[LISTEN_FILTER_MAX]
		       [PEER_KEY_BYTES]; /* addresses whose new connections the kernel drops */
	size_t n_deaf_to, n_filtered;
	int listeners[8];
	size_t n_listeners;
};

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

static int compare_ends(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rpc_end));
}

/* The first member of struct socket_seen is its struct rpc_end. */
static int compare_seen(const void *a, const void *b)
{
	return compare_ends(a, b);
}

static int compare_calls(const void *a, const void *b)
{
	return compare_ends(a, b);
}

static bool end_of_fd(int fd, int (*name)(int, struct sockaddr *, socklen_t *), struct rpc_end *out)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof(address);

	return !name(fd, (struct sockaddr *)&address, &len) &&
	       rpc_end_of((struct sockaddr *)&address, out);
}

/* ---- bans ---- */

bool rpc_conns_is_banned(const struct rpc_conns *cs, const uint8_t key[PEER_KEY_BYTES])
{
	const struct ban *b = bans_find(&cs->bans, key);

	return b && b->cuts;
}

/* Core may close the descriptor at any time, and another file may then get its number. So this duplicates the
 * descriptor, checks that the duplicate is still this connection, and disconnects that. Received bytes that
 * core has not read are dropped. */
static void cut(const struct socket_seen *s)
{
	static const struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
	struct rpc_end end;

	if (fd >= 0 && end_of_fd(fd, getpeername, &end) && !compare_ends(&end, &s->end))
		(void)connect(fd, &none, sizeof(none));
	if (fd >= 0)
		close(fd);
}

/* ---- looking ---- */

static uint64_t bytes_read(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int unread = 0;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || ioctl(fd, SIOCINQ, &unread))
		return 0;
	return info.tcpi_bytes_received > (uint64_t)unread
		       ? info.tcpi_bytes_received - (uint64_t)unread
		       : 0;
}

static void add_call(struct call_seen **list, size_t *n, size_t *cap, const struct call_seen *c)
{
	if (*n == *cap) {
		*cap = *n ? 2 * *n : 64;
		*list = xrealloc(*list, *cap * sizeof(**list));
	}
	(*list)[(*n)++] = *c;
}

static void list_calls(struct rpc_conns *cs)
{
	cs->n_calls = 0;
	for (struct rpc_call *c = cs->server->calls; c; c = c->next)
		add_call(&cs->calls, &cs->n_calls, &cs->calls_cap,
			 &(struct call_seen){ c->from, c, c->received, c->admitted });
	sort_array(cs->calls, cs->n_calls, sizeof(*cs->calls), compare_calls);
	sort_array(cs->ended, cs->n_ended, sizeof(*cs->ended), compare_calls);
}

static void add_seen(struct rpc_conns *cs, const struct socket_seen *s)
{
	if (cs->n_seen == cs->cap) {
		cs->cap = cs->cap ? 2 * cs->cap : 64;
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
		if (!end_of_fd(l->fd, getsockname, &local) || local.port != cs->port ||
		    !end_of_fd(l->fd, getpeername, &s.end)) {
			l->hole = errno == EBADF ? l->hole + 1 : 0;
			continue;
		}
		l->hole = 0;
		s.read = bytes_read(l->fd);
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

	while (*at < n && compare_ends(&list[*at].end, &s->end) < 0)
		(*at)++;
	first = *at;
	while (*at < n && !compare_ends(&list[*at].end, &s->end))
		(*at)++;
	return first;
}

/* All lists are sorted by struct rpc_end. */
static void mark_calls(struct rpc_conns *cs)
{
	size_t live = 0, ended = 0;

	for (size_t i = 0; i < cs->n_seen; i++) {
		struct socket_seen *s = &cs->seen[i];

		for (size_t k = calls_of(s, cs->ended, cs->n_ended, &ended); k < ended; k++) {
			s->whole += cs->ended[k].received;
			s->known |= cs->ended[k].admitted;
		}
		s->delivered = s->whole;
		for (size_t k = calls_of(s, cs->calls, cs->n_calls, &live); k < live; k++) {
			s->delivered += cs->calls[k].received;
			s->admitted |= cs->calls[k].admitted;
		}
		s->known |= s->admitted;
	}
	cs->n_ended = 0;
}

/* ---- judging ---- */

static void be_deaf_to(struct rpc_conns *cs, const uint8_t key[PEER_KEY_BYTES])
{
	if (cs->n_deaf_to < ARRAY_SIZE(cs->deaf_to))
		memcpy(cs->deaf_to[cs->n_deaf_to++], key, PEER_KEY_BYTES);
}

/* The connections of one address: cs->seen[from .. to). */
static void judge_address(struct rpc_conns *cs, size_t from, size_t to)
{
	const uint8_t *key = cs->seen[from].end.key;
	uint64_t bytes = 0;
	size_t unidentified = 0;

	for (size_t i = from; i < to; i++) {
		if (cs->seen[i].admitted)
			continue;
		bytes += cs->seen[i].known ? 0 : cs->seen[i].read;
		if (++unidentified > cs->per_address && cs->per_address)
			cut(&cs->seen[i]);
	}
	if (cs->per_address && unidentified > cs->per_address)
		bans_add(&cs->bans, key, false, "it has more than its share of connections open");
	else if (cs->per_address && unidentified == cs->per_address)
		be_deaf_to(cs, key);
	if (cs->per_address && bytes > ADDRESS_BYTES + cs->per_address * MORE_BYTES)
		bans_add(&cs->bans, key, true,
			 "it sends without end, and no call of it was admitted");
	if (!rpc_conns_is_banned(cs, key))
		return;
	for (size_t i = from; i < to; i++) {
		if (!cs->seen[i].admitted)
			cut(&cs->seen[i]);
	}
}

static void set_filter(struct rpc_conns *cs)
{
	if (!cs->n_deaf_to && !cs->n_filtered)
		return;
	for (size_t i = 0; i < cs->n_listeners; i++)
		listen_filter_set(cs->listeners[i], (const uint8_t(*)[PEER_KEY_BYTES])cs->deaf_to,
				  cs->n_deaf_to);
	cs->n_filtered = cs->n_deaf_to;
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
			cs->seen[i].cooled = was->cooled;
			cs->seen[i].heat = was->heat;
			cs->seen[i].whole = was->whole;
			cs->seen[i].moved = cs->seen[i].read - was->read > MOVED_BYTES;
		}
	}
}

/* Core's thread has been busy: adds to the heat of the connections that sent much, and disconnects those that are
 * too hot. The heat of a known connection starts again at 0 each time core's thread has returned to the queue. */
static void judge_heat(struct rpc_conns *cs, bool still_busy)
{
	for (size_t i = 0; i < cs->n_seen; i++) {
		struct socket_seen *s = &cs->seen[i];
		uint64_t more = s->read - s->cooled;

		s->heat = more > WARM_BYTES ? s->heat + (more > HOT_BYTES ? HOT : WARM) : 0;
		s->cooled = s->read;
		if (s->known && !still_busy)
			s->heat = 0;
		if (s->heat < (s->known ? KNOWN_TOO_HOT : TOO_HOT))
			continue;
		bans_add(&cs->bans, s->end.key, true,
			 "its frames come faster than they can be processed");
		cut(s);
	}
}

/* ---- messages that are not complete ---- */

/* The bytes that a connection has sent of incomplete messages. For each of its calls: what has come since its last
 * complete message, less the complete messages of the other calls; headers and frames are part of that. The result
 * is the largest of these, so that a second call cannot hide one that never completes its message. */
static uint64_t measure_unfinished(const struct socket_seen *s, const struct call_seen *calls,
				   size_t n)
{
	uint64_t more = s->read > s->delivered ? s->read - s->delivered : 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		struct rpc_call *c = calls[i].call;

		if (!c->looked_at || c->received != c->looked_received) {
			c->looked_at = true;
			c->looked_received = c->received;
			c->more_then = more;
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
			moved |= cs->calls[k].received - cs->calls[k].call->looked_received >
				 MOVED_BYTES;
		if (moved)
			s->read = bytes_read(s->fd);
		s->unfinished = measure_unfinished(s, cs->calls + first, live - first);
	}
}

/* The connections of one address, as judge_address(). */
static void judge_unfinished(struct rpc_conns *cs, size_t from, size_t to)
{
	uint64_t bytes = 0;

	for (size_t i = from; i < to; i++)
		bytes += cs->seen[i].unfinished > UNFINISHED_LEAST ? cs->seen[i].unfinished : 0;
	if (bytes <= UNFINISHED_BYTES || !cs->per_address)
		return;
	bans_add(&cs->bans, cs->seen[from].end.key, true, "it sends messages that do not end");
	for (size_t i = from; i < to; i++) {
		if (cs->seen[i].unfinished > UNFINISHED_LEAST)
			cut(&cs->seen[i]);
	}
}

static void judge_all(struct rpc_conns *cs)
{
	int64_t now_ns = now_mono_ns();
	size_t to;

	cs->n_deaf_to = 0;
	for (size_t from = 0; from < cs->n_seen; from = to) {
		for (to = from + 1; to < cs->n_seen; to++) {
			if (memcmp(cs->seen[to].end.key, cs->seen[from].end.key, PEER_KEY_BYTES))
				break;
		}
		judge_address(cs, from, to);
		judge_unfinished(cs, from, to);
	}
	for (size_t i = 0; i < BANS_MAX; i++) {
		if (cs->bans.items[i].until_ns > now_ns)
			be_deaf_to(cs, cs->bans.items[i].key);
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
	list_calls(cs);
	remember(cs);
	mark_calls(cs);
	measure_all(cs);
	if (cs->look.worked)
		judge_heat(cs, cs->look.still_busy);
	judge_all(cs);
	set_filter(cs);
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

	while (l->step < ARRAY_SIZE(steps) && took_ns < LOOK_TURN_NS) {
		if (steps[l->step](cs))
			l->step++;
		took_ns = now_thread_cpu_ns() - begin_ns;
	}
	l->took_ns += took_ns;
	if (l->step == ARRAY_SIZE(steps))
		end_look(cs);
	else
		loop_timer_in(cs->loop, &l->timer, 0, go_on_looking, cs);
}

/* `worked`: core's thread has been busy; `still_busy`: and it has not returned to the queue since the look
 * before. */
static void look(struct rpc_conns *cs, bool worked, bool still_busy)
{
	if (cs->look.is_under_way)
		return;
	cs->look = (struct look){
		.is_under_way = true,
		.worked = worked,
		.still_busy = still_busy,
		.fd = 3,
		.before = cs->seen,
		.n_before = cs->n_seen,
	};
	cs->seen = NULL;
	cs->n_seen = cs->cap = 0;
	go_on_looking(cs);
}

static void on_look(void *arg)
{
	look(arg, false, false);
}

/* ---- occasions ---- */

void rpc_conns_await(struct rpc_conns *cs)
{
	look_at(cs, now_mono_ns() + AWAIT_LOOK_NS);
}

/* The call is still in the server's list. */
void rpc_conns_end(struct rpc_conns *cs, const struct rpc_call *c)
{
	if (cs->n_ended == ENDED_MAX)
		look(cs, false, false);
	add_call(&cs->ended, &cs->n_ended, &cs->ended_cap,
		 &(struct call_seen){ c->from, NULL, c->received, c->admitted });
}

void rpc_conns_worked(struct rpc_conns *cs, unsigned int returns)
{
	bool still_busy = cs->returns == returns;

	if (cs->look.is_under_way || now_mono_ns() < cs->not_before_ns)
		return;
	cs->returns = returns;
	look(cs, true, still_busy);
}

struct rpc_conns *rpc_conns_next(const struct rpc_conns *cs)
{
	return cs->next;
}

/* Finds the server's listening sockets, and bounds what the kernel holds for core to accept: listen() on a socket
 * that listens changes only that. */
static void find_listeners(struct rpc_conns *cs)
{
	struct rpc_end local;

	for (int fd = 3, hole = 0; hole < HOLE && cs->n_listeners < ARRAY_SIZE(cs->listeners);
	     fd++) {
		int listens = 0;
		socklen_t len = sizeof(listens);

		hole = fcntl(fd, F_GETFD) < 0 ? hole + 1 : 0;
		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && listens &&
		    end_of_fd(fd, getsockname, &local) && local.port == cs->port) {
			cs->listeners[cs->n_listeners++] = fd;
			if (listen(fd, BACKLOG))
				log_warn("NET-BACKLOG", "port=%d reason=\"%s\"", cs->port,
					 strerror(errno));
		}
	}
}

struct rpc_conns *rpc_conns_new(struct rpc_server *s, int port, size_t per_address)
{
	struct rpc_conns *cs = xcalloc(1, sizeof(*cs));

	cs->server = s;
	cs->loop = s->rpc->loop;
	cs->port = port;
	cs->per_address = per_address;
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
	free(cs->calls);
	free(cs->seen);
	free(cs);
}
