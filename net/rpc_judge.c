/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges what a look at the connections of a server's port found (rpc_conns.c).
 *
 * A connection that carries no admitted call is unidentified; one that never carried any is unknown, and one that does
 * or did is known. A connection that exceeds a bound is disconnected; core sees that as the peer's end. Its address
 * is banned for a time (rpc_bans.h): its unidentified connections are disconnected, and the kernel drops new ones. The
 * kernel also drops new connections of an address that has as many as it may have.
 *
 * Each address has bounds of its own, and all have bounds together (share.h), so that addresses which collude do not use
 * up core's quota, which is one for all connections (rpc_guests.c). What unknown ones may send and what known ones may have
 * sent of incomplete messages stays below the quota together, so it is never an agent's link that core ends for it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_conns_impl.h"
#include "net/share.h"

#define GUESTS_MAX 16 /* open calls of a connection that are not admitted; each takes 11 kB */

/* Unknown connections. One address may have cs->per_address, which is more behind a NAT: so may all. The least is
 * what a host needs: a fleet that returns is as many addresses as it has hosts. */
#define UNKNOWN_MORE  64
#define UNKNOWN_LEAST 8

/* Bytes that unknown connections may send, read by core or not, without those of whole messages. Those of one connection
 * count from FREE_BYTES on, which a TLS handshake and the first message of an agent need; a ProfileRequest may need
 * LIMIT_PROFILE_BYTES. */
#define FREE_BYTES ((uint64_t)16 << 10)
static const struct share_rule unknown_bytes = {
	.one = (uint64_t)256 << 10,
	.all = (uint64_t)1 << 20,
	.least = (uint64_t)64 << 10,
};

/* Bytes of incomplete messages on known connections. An upload has hardly more than one message of 1 MiB. Less than
 * FRAMES_BYTES of one connection does not count: frames and headers need it. */
#define FRAMES_BYTES ((uint64_t)64 << 10)
static const struct share_rule unfinished_bytes = {
	.one = (uint64_t)12 << 20,
	.all = (uint64_t)16 << 20,
	.least = (uint64_t)3 << 19,
};

/*
 * CPU time of core's thread. What it spends between two looks is charged to the connections whose bytes it read then, in
 * proportion to those that belong to no whole message: frames of 17 bytes cost as much as a message of a kilobyte. A look charges
 * LOOK_NS at most: in a crowd the looks are rare. What was charged is forgotten with time, FORGET_SHARE-th of that.
 * Less than FREE_NS of one unknown connection does not count: a TLS handshake takes 2 to 5 ms.
 */
#define LOOK_NS	     (40 * NS_PER_MS)
#define FORGET_SHARE 50
#define FREE_NS	     (8 * NS_PER_MS)
static const struct share_rule unknown_work = {
	.one = 40 * NS_PER_MS,
	.all = 120 * NS_PER_MS,
	.least = 20 * NS_PER_MS,
};
/* Of one known connection, since core's thread last returned to the queue; a message of 1 MiB takes 1 ms. */
#define KNOWN_NS (100 * NS_PER_MS)

#define TOO_FAST "its frames come faster than they can be processed"

enum kind { UNKNOWN, UNKNOWN_BYTES, UNKNOWN_WORK, UNFINISHED, KINDS };

/* What the connections of one address take: those at cs->seen[from .. to). */
struct address {
	size_t from, to;
	size_t unidentified;
	uint64_t takes[KINDS];
};

struct limits {
	uint64_t of[KINDS]; /* of one address */
};

/* ---- consequences ---- */

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

	if (fd >= 0 && rpc_end_of_fd(fd, getpeername, &end) && !rpc_end_compare(&end, &s->end))
		(void)connect(fd, &none, sizeof(none));
	if (fd >= 0)
		close(fd);
}

static void be_deaf_to(struct rpc_conns *cs, const uint8_t key[PEER_KEY_BYTES])
{
	if (cs->n_deaf_to < ARRAY_SIZE(cs->deaf_to))
		memcpy(cs->deaf_to[cs->n_deaf_to++], key, PEER_KEY_BYTES);
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

/* ---- work ---- */

/* Bytes that core has read since the last charge and that belong to no whole message. */
static uint64_t to_charge(const struct socket_seen *s)
{
	uint64_t done = s->charged > s->answered ? s->charged : s->answered;

	return s->read > done ? s->read - done : 0;
}

static void charge(struct socket_seen *s, int64_t work_ns, int64_t passed_ns, uint64_t all)
{
	int64_t forget_ns = passed_ns / FORGET_SHARE;

	s->work_ns -= s->work_ns < forget_ns ? s->work_ns : forget_ns;
	if (all)
		s->work_ns += (int64_t)((double)work_ns * (double)to_charge(s) / (double)all);
	s->charged = s->read;
}

static void judge_work(struct rpc_conns *cs)
{
	int64_t worked_ns = rpc_work_ns(cs->server->rpc), now_ns = now_mono_ns();
	int64_t work_ns = worked_ns - cs->worked_ns, passed_ns = now_ns - cs->judged_ns;
	uint64_t all = 0;

	cs->worked_ns = worked_ns;
	cs->judged_ns = now_ns;
	work_ns = work_ns < LOOK_NS ? work_ns : LOOK_NS;
	for (size_t i = 0; i < cs->n_seen; i++)
		all += cs->seen[i].read > cs->seen[i].charged
			       ? cs->seen[i].read - cs->seen[i].charged
			       : 0;
	for (size_t i = 0; i < cs->n_seen; i++) {
		struct socket_seen *s = &cs->seen[i];

		charge(s, work_ns, passed_ns, all);
		if (s->known && !cs->look.still_busy)
			s->work_ns = 0;
		if (!s->known || s->work_ns < KNOWN_NS)
			continue;
		bans_add(&cs->bans, s->end.key, true, TOO_FAST);
		cut(s);
	}
}

/* ---- calls ---- */

static void judge_calls(struct rpc_conns *cs)
{
	for (size_t i = 0; i < cs->n_seen; i++) {
		const struct socket_seen *s = &cs->seen[i];

		if (s->guests <= GUESTS_MAX)
			continue;
		bans_add(&cs->bans, s->end.key, true, "it opens more calls than it may");
		cut(s);
	}
}

/* ---- what each address takes ---- */

static void add_up(const struct rpc_conns *cs, struct address *a)
{
	for (size_t i = a->from; i < a->to; i++) {
		const struct socket_seen *s = &cs->seen[i];
		uint64_t came = s->read + s->unread;
		uint64_t sent = came > s->answered ? came - s->answered : 0;

		a->unidentified += !s->admitted;
		if (!s->known) {
			a->takes[UNKNOWN]++;
			a->takes[UNKNOWN_BYTES] += sent > FREE_BYTES ? sent - FREE_BYTES : 0;
			a->takes[UNKNOWN_WORK] += s->work_ns > FREE_NS
							  ? (uint64_t)(s->work_ns - FREE_NS)
							  : 0;
		}
		a->takes[UNFINISHED] += s->unfinished > FRAMES_BYTES ? s->unfinished : 0;
	}
}

/* The caller frees the result. */
static struct address *list_addresses(const struct rpc_conns *cs, size_t *n)
{
	struct address *list = xcalloc(cs->n_seen + 1, sizeof(*list));

	*n = 0;
	for (size_t i = 0; i < cs->n_seen; i++) {
		if (!i || memcmp(cs->seen[i].end.key, cs->seen[i - 1].end.key, PEER_KEY_BYTES))
			list[(*n)++].from = i;
		list[*n - 1].to = i + 1;
	}
	for (size_t i = 0; i < *n; i++)
		add_up(cs, &list[i]);
	return list;
}

/* `n_more`: addresses that had all that one may take, and are banned for it. */
static uint64_t limit_of(const struct address *list, size_t n, enum kind kind,
			 const struct share_rule *rule, size_t n_more)
{
	uint64_t *taken = xcalloc(n + n_more + 1, sizeof(*taken)), limit;

	for (size_t i = 0; i < n; i++)
		taken[i] = list[i].takes[kind];
	for (size_t i = n; i < n + n_more; i++)
		taken[i] = rule->one;
	limit = share_limit(rule, taken, n + n_more);
	free(taken);
	return limit;
}

static struct limits find_limits(const struct rpc_conns *cs, const struct address *list, size_t n)
{
	const struct share_rule unknown = {
		.one = cs->per_address,
		.all = cs->per_address + UNKNOWN_MORE,
		.least = UNKNOWN_LEAST,
	};

	return (struct limits){ {
		[UNKNOWN] = limit_of(list, n, UNKNOWN, &unknown, 0),
		[UNKNOWN_BYTES] = limit_of(list, n, UNKNOWN_BYTES, &unknown_bytes, 0),
		[UNKNOWN_WORK] = limit_of(list, n, UNKNOWN_WORK, &unknown_work,
					  bans_count(&cs->bans)),
		[UNFINISHED] = limit_of(list, n, UNFINISHED, &unfinished_bytes, 0),
	} };
}

/* ---- judging ---- */

static bool is_unidentified(const struct socket_seen *s)
{
	return !s->admitted;
}

static bool is_unknown(const struct socket_seen *s)
{
	return !s->known;
}

static bool is_unfinished(const struct socket_seen *s)
{
	return s->unfinished > FRAMES_BYTES;
}

/* Disconnects all such connections of an address but the first ones. */
static void cut_all(const struct rpc_conns *cs, const struct address *a, size_t but,
		    bool (*is_such)(const struct socket_seen *s))
{
	for (size_t i = a->from; i < a->to; i++) {
		if (is_such(&cs->seen[i]) && (!but || !but--))
			cut(&cs->seen[i]);
	}
}

/* An address that had more connections than it may have is banned; one that had more than is left for it makes room. */
static void judge_connections(struct rpc_conns *cs, const struct address *a, size_t unknown)
{
	const uint8_t *key = cs->seen[a->from].end.key;

	if (a->unidentified > cs->per_address) {
		bans_add(&cs->bans, key, false, "it has more than its share of connections open");
		cut_all(cs, a, cs->per_address, is_unidentified);
	}
	if (a->takes[UNKNOWN] > unknown)
		cut_all(cs, a, unknown, is_unknown);
	if (a->unidentified == cs->per_address || a->takes[UNKNOWN] >= unknown)
		be_deaf_to(cs, key);
}

static void judge_shares(struct rpc_conns *cs, const struct address *a, const struct limits *limits)
{
	const uint8_t *key = cs->seen[a->from].end.key;

	if (a->takes[UNKNOWN_BYTES] > limits->of[UNKNOWN_BYTES])
		bans_add(&cs->bans, key, true,
			 "it sends without end, and no call of it was admitted");
	if (a->takes[UNKNOWN_WORK] > limits->of[UNKNOWN_WORK])
		bans_add(&cs->bans, key, true, TOO_FAST);
	if (a->takes[UNFINISHED] > limits->of[UNFINISHED]) {
		bans_add(&cs->bans, key, true, "it sends messages that do not end");
		cut_all(cs, a, 0, is_unfinished);
	}
	if (rpc_conns_is_banned(cs, key))
		cut_all(cs, a, 0, is_unidentified);
}

static void judge_addresses(struct rpc_conns *cs)
{
	size_t n;
	struct address *list = list_addresses(cs, &n);
	struct limits limits = find_limits(cs, list, n);

	for (size_t i = 0; i < n; i++) {
		judge_connections(cs, &list[i], (size_t)limits.of[UNKNOWN]);
		judge_shares(cs, &list[i], &limits);
	}
	free(list);
}

void rpc_judge(struct rpc_conns *cs)
{
	int64_t now_ns = now_mono_ns();

	cs->n_deaf_to = 0;
	judge_work(cs);
	judge_calls(cs);
	judge_addresses(cs);
	for (size_t i = 0; i < BANS_MAX; i++) {
		if (cs->bans.items[i].until_ns > now_ns)
			be_deaf_to(cs, cs->bans.items[i].key);
	}
	set_filter(cs);
}
