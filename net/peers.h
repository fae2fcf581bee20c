/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many of a server's connections, or calls, each address may hold: at most as many as are free for others.
 * So the first address gets half, and those that come later always find some. An IPv6 address counts as its
 * /64, which one machine may use as a whole. Any thread. Private to net/.
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct peers;
struct peer_share;

/* What stands for an address: IPv4 as it is mapped into IPv6, of IPv6 the first 64 bits. */
#define PEER_KEY_BYTES 16
void peers_key(const struct sockaddr *address, uint8_t key[PEER_KEY_BYTES]);

struct peers *peers_new(size_t max);
void peers_free(struct peers *p); /* every one has left; NULL is fine */

/* Whether one more of this address is within its share. */
bool peers_admit(struct peers *p, const struct sockaddr *address);

/* One begins and ends; peers_leave() gets what peers_join() returned. */
struct peer_share *peers_join(struct peers *p, const struct sockaddr *address);
void peers_leave(struct peers *p, struct peer_share *peer);

#endif
