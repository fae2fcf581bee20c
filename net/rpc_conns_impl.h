/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by rpc_conns.c, which looks at connections, and rpc_judge.c, which judges what a look found; private to them. */
#ifndef NET_RPC_CONNS_IMPL_H
#define NET_RPC_CONNS_IMPL_H

#include "net/listen_filter.h"
#include "net/rpc_bans.h"
#include "net/rpc_impl.h"

/* One connection, as a look found it. */
struct socket_seen {
	struct rpc_end end;
	int fd;
	uint64_t read; /* bytes that core has read */
	uint64_t unread; /* bytes that came and that core has not read */
	uint64_t
		charged; /* bytes of `read` that judge_work() has charged, or found to need no charge */
	int64_t work_ns; /* CPU time of core's thread that it is charged for */
	uint64_t whole; /* bytes of the whole messages of its calls that have ended */
	uint64_t settled; /* bytes of `read` that calls that have ended account for */
	uint64_t
		answered; /* the same of all its calls, ended or not, of which a whole message came */
	uint64_t delivered; /* the same of all its calls, ended or not */
	uint64_t unfinished; /* see measure_unfinished() */
	size_t guests; /* its calls that are not admitted: open ones, and of the last second those without a message */
	bool moved; /* MOVED_BYTES have come since the look before */
	bool admitted; /* it carries an admitted call */
	/* it carries or carried one: between two uploads an agent's connection carries none */
	bool known;
};

/* What a look needs of a call. It lies apart from the call, side by side with those of the others: a look that follows
 * 10,000 pointers waits 5 ms for memory. */
struct call_seen {
	struct rpc_call *call; /* NULL: it has ended */
	struct rpc_end end;
	bool admitted;
	bool looked_at; /* `looked_received` and `more_then` are set, see measure_unfinished() */
	uint64_t received; /* bytes of whole messages, with their prefixes */
	uint64_t looked_received; /* `received` at the latest look that found it changed */
	uint64_t more_then; /* bytes beyond whole messages on the connection, at that look */
	int64_t ended_ns; /* loop_now_ns() */
};

/* With many connections, a look takes several turns of the loop. */
struct look {
	size_t step; /* in steps[] */
	bool is_under_way;
	bool still_busy; /* core's thread has worked, and has not returned to the queue since the look before */
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
	size_t per_address; /* unidentified connections that one address may have */
	struct loop_timer timer;
	struct look look;
	int64_t not_before_ns; /* when the next look may begin */
	unsigned int returns; /* rpc_work.returns when core's thread had last worked for a while */
	int64_t worked_ns,
		judged_ns; /* CPU time of core's thread, and the time, at the last judgement */
	struct socket_seen *seen; /* at the last look, by address and port */
	size_t n_seen, cap;
	struct call_seen *open; /* the place of a call is its `seat` */
	size_t n_open, open_cap;
	struct call_seen
		*calls; /* a copy of `open` by address and port, during a look's last step */
	size_t n_calls;
	struct call_seen *ended; /* calls that ended since the last look */
	size_t n_ended, ended_cap;
	struct bans bans;
	uint8_t deaf_to[LISTEN_FILTER_MAX]
		       [PEER_KEY_BYTES]; /* addresses whose new connections the kernel drops */
	size_t n_deaf_to, n_filtered;
	int listeners[8];
	size_t n_listeners;
};

/* Judges cs->seen, which is sorted by address and port: bans addresses, disconnects connections, and tells the kernel
 * which addresses are to have no new ones. */
void rpc_judge(struct rpc_conns *cs);

/* The end of a socket that `name` (getsockname or getpeername) gives; false: it is no such socket. */
bool rpc_end_of_fd(int fd, int (*name)(int, struct sockaddr *, socklen_t *), struct rpc_end *out);

/* By address, then port. */
int rpc_end_compare(const struct rpc_end *a, const struct rpc_end *b);

#endif
