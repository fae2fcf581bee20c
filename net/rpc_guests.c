/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests: calls that are not admitted. The handler does not know the caller yet, or never asks (health,
 * reflection, Profile). Addresses share the places for guests, and a guest's first message has a time limit.
 *
 * Core 1.51 delivers a message when it is complete, and only then can its length be checked: until then core
 * collects as much as the peer announced, up to 4 GiB. Core's resource quota bounds what all connections
 * together have collected. When it is used up, core cancels streams of the oldest connection first, which may
 * be an agent's link. So rpc_conns.c bans peers that send much before the quota is used up.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_impl.h"

#define QUOTA_BYTES	     ((size_t)34 << 20)
#define QUOTA_ADMITTED_BYTES ((size_t)16 << 10) /* added to the quota for each admitted call */
/* Added for each connection of a server with TLS: core counts two buffers of 8 kB, which it has as long as the connection. */
#define QUOTA_TLS_BYTES ((size_t)20 << 10)
/* Connections that may have come since they were counted: a fleet of 10,000 is counted every three seconds, and 450 handshakes a
 * second keep core's thread busy. */
#define TLS_MORE 4096

#define LOG_EVERY_NS (10 * NS_PER_S)

static void set_quota(struct rpc_server *s)
{
	size_t bytes = QUOTA_BYTES + s->n_admitted * QUOTA_ADMITTED_BYTES, connections;

	if (s->has_tls) {
		connections = s->n_connections > s->n_admitted ? s->n_connections : s->n_admitted;
		bytes += (connections + TLS_MORE) * QUOTA_TLS_BYTES;
	}
	grpc_resource_quota_resize(s->quota, bytes);
}

void rpc_guests_counted(struct rpc_server *s, size_t n_connections)
{
	s->n_connections = n_connections;
	set_quota(s);
}

void rpc_guests_start(struct rpc_server *s)
{
	s->guests = peers_new(RPC_GUESTS_MAX);
	s->quota = grpc_resource_quota_create("server");
	set_quota(s);
}

void rpc_guests_stop(struct rpc_server *s)
{
	peers_free(s->guests);
	grpc_resource_quota_unref(s->quota);
}

/* Parses "ipv4:10.0.0.7:5" and "ipv6:%5Bfe80::1%5D:5". All other texts give one address, without a family. */
static struct sockaddr_storage address_of(const char *peer)
{
	struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
	char host[INET6_ADDRSTRLEN] = "";
	const char *end = strrchr(peer, ':');
	in_port_t port;
	size_t len;

	if (end - peer <= 5 || (strncmp(peer, "ipv4:", 5) && strncmp(peer, "ipv6:", 5)))
		return a;
	peer += 5;
	if (!strncasecmp(peer, "%5b", 3) || *peer == '[')
		peer += *peer == '[' ? 1 : 3;
	port = htons((uint16_t)strtoul(end + 1, NULL, 10));
	len = strcspn(peer, "%]");
	len = len < (size_t)(end - peer) ? len : (size_t)(end - peer);
	if (len >= sizeof(host))
		return a;
	memcpy(host, peer, len);
	if (inet_pton(AF_INET, host, &((struct sockaddr_in *)&a)->sin_addr) == 1)
		a.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, host, &((struct sockaddr_in6 *)&a)->sin6_addr) == 1)
		a.ss_family = AF_INET6;
	if (a.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&a)->sin6_port = port;
	else
		((struct sockaddr_in *)&a)->sin_port = port;
	return a;
}

static void on_first_late(void *arg)
{
	rpc_abort(arg, RPC_DEADLINE_EXCEEDED, "no whole message came in time");
}

static void log_refused(const struct rpc_call *c)
{
	int64_t now_ns = loop_now_ns(c->rpc->loop);

	if (c->server->refused_logged_ns && now_ns - c->server->refused_logged_ns < LOG_EVERY_NS)
		return;
	c->server->refused_logged_ns = now_ns;
	log_warn("NET-CALLS", "peer=%s reason=\"it has its share of the calls open\"", rpc_peer(c));
}

bool rpc_guest_is_banned(const struct rpc_server *s, const char *peer)
{
	struct sockaddr_storage a = address_of(peer);
	struct rpc_end end;

	return rpc_end_of((struct sockaddr *)&a, &end) && rpc_conns_is_banned(s->conns, end.key);
}

bool rpc_guest_begin(struct rpc_call *c)
{
	struct sockaddr_storage a = address_of(rpc_peer(c));
	struct peers *guests = c->server->guests;

	rpc_end_of((struct sockaddr *)&a, &c->from);
	if (c->server->conns)
		rpc_conns_begin(c->server->conns, c);
	if (!peers_admit(guests, (struct sockaddr *)&a)) {
		log_refused(c);
		rpc_abort(c, RPC_RESOURCE_EXHAUSTED,
			  "this address has as many calls open as are left for all others");
		return false;
	}
	c->guest = peers_join(guests, (struct sockaddr *)&a);
	loop_timer_in(c->rpc->loop, &c->first_timer, RPC_FIRST_MESSAGE_NS, on_first_late, c);
	c->awaited = true;
	c->server->n_awaited++;
	return true;
}

/* Its first message has come, or never will. */
static void end_awaiting(struct rpc_call *c)
{
	loop_timer_cancel(c->rpc->loop, &c->first_timer);
	if (c->awaited)
		c->server->n_awaited--;
	c->awaited = false;
}

void rpc_guest_message(struct rpc_call *c)
{
	end_awaiting(c);
}

static void leave(struct rpc_call *c)
{
	if (c->guest)
		peers_leave(c->server->guests, c->guest);
	c->guest = NULL;
}

void rpc_admit(struct rpc_call *c)
{
	if (c->admitted || !c->guest)
		return;
	leave(c);
	c->admitted = true;
	if (c->server->conns)
		rpc_conns_admit(c->server->conns, c);
	c->server->n_admitted++;
	set_quota(c->server);
}

void rpc_guest_end(struct rpc_call *c)
{
	end_awaiting(c);
	leave(c);
	if (c->server && c->server->conns)
		rpc_conns_end(c->server->conns, c);
	if (!c->admitted)
		return;
	c->server->n_admitted--;
	set_quota(c->server);
}
