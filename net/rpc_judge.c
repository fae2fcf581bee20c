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

/* Bytes that unknown connections may send. Those of one connection count from FREE_BYTES on, which a TLS handshake and the first
 * message of an agent need. */
#define FREE_BYTES ((uint64_t)16 << 10)
static const struct share_rule unknown_bytes = {
	.one = (uint64_t)4 << 20,
	.all = (uint64_t)8 << 20,
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

enum kind { UNKNOWN, UNKNOWN_BYTES, UNFINISHED, KINDS };

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

/* ---- heat ---- */

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
		uint64_t sent = s->read - s->settled;

		a->unidentified += !s->admitted;
		if (!s->known) {
			a->takes[UNKNOWN]++;
			a->takes[UNKNOWN_BYTES] += sent > FREE_BYTES ? sent - FREE_BYTES : 0;
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

static uint64_t limit_of(const struct address *list, size_t n, enum kind kind,
			 const struct share_rule *rule)
{
	uint64_t *taken = xcalloc(n + 1, sizeof(*taken)), limit;

	for (size_t i = 0; i < n; i++)
		taken[i] = list[i].takes[kind];
	limit = share_limit(rule, taken, n);
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
		[UNKNOWN] = limit_of(list, n, UNKNOWN, &unknown),
		[UNKNOWN_BYTES] = limit_of(list, n, UNKNOWN_BYTES, &unknown_bytes),
		[UNFINISHED] = limit_of(list, n, UNFINISHED, &unfinished_bytes),
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

static void judge_bytes(struct rpc_conns *cs, const struct address *a, const struct limits *limits)
{
	const uint8_t *key = cs->seen[a->from].end.key;

	if (a->takes[UNKNOWN_BYTES] > limits->of[UNKNOWN_BYTES])
		bans_add(&cs->bans, key, true,
			 "it sends without end, and no call of it was admitted");
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
		judge_bytes(cs, &list[i], &limits);
	}
	free(list);
}

void rpc_judge(struct rpc_conns *cs)
{
	int64_t now_ns = now_mono_ns();

	cs->n_deaf_to = 0;
	if (cs->look.worked)
		judge_heat(cs, cs->look.still_busy);
	judge_calls(cs);
	judge_addresses(cs);
	for (size_t i = 0; i < BANS_MAX; i++) {
		if (cs->bans.items[i].until_ns > now_ns)
			be_deaf_to(cs, cs->bans.items[i].key);
	}
	set_filter(cs);
}
