/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares a server's connections, or calls, among addresses: one address may hold at most as many as are still
 * free. So an address that comes alone gets half, and an address that comes later always finds some. IPv6
 * addresses of one /64 count as one address, because one machine may use them all. Any thread. Private to
 * net/.
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct peers;
struct peer_share;

/* The key of an address: an IPv4 address mapped into IPv6, or the first 64 bits of an IPv6 address. */
#define PEER_KEY_BYTES 16
void peers_key(const struct sockaddr *address, uint8_t key[PEER_KEY_BYTES]);

struct peers *peers_new(size_t max);
void peers_free(struct peers *p); /* nothing is held any more; NULL is fine */

/* Whether this address may hold one more. */
bool peers_admit(struct peers *p, const struct sockaddr *address);

/* Counts a connection (or call) that begins, and one that ends; peers_leave() gets what peers_join()
 * returned. */
struct peer_share *peers_join(struct peers *p, const struct sockaddr *address);
void peers_leave(struct peers *p, struct peer_share *peer);

#endif
