/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many of a server's connections each address may hold: at most as many as are free for others. So the
 * first address gets half, and those that come later always find some. An IPv6 address counts as its /64,
 * which one machine may use as a whole. Any thread. Private to net/.
 */
#ifndef NET_HTTP_PEERS_H
#define NET_HTTP_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct http_peers;
struct http_peer;

struct http_peers *http_peers_new(size_t max_connections);
void http_peers_free(struct http_peers *p); /* every connection has left; NULL is fine */

/* Whether one more connection of this address is within its share. */
bool http_peers_admit(struct http_peers *p, const struct sockaddr *address);

/* A connection begins and ends; http_peers_leave() gets what http_peers_join() returned. */
struct http_peer *http_peers_join(struct http_peers *p, const struct sockaddr *address);
void http_peers_leave(struct http_peers *p, struct http_peer *peer);

#endif
