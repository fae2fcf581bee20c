/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that are banned from a server's port for a time, because they took too much of it. Private to
 * net/. */
#ifndef NET_RPC_BANS_H
#define NET_RPC_BANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/peers.h"

#define BANS_MAX 32 /* the one that ends first makes room */

struct ban {
	uint8_t key[PEER_KEY_BYTES];
	int64_t until_ns; /* CLOCK_MONOTONIC */
	bool cuts; /* its connections are disconnected; else only new ones are refused */
};

/* Zeroed is empty. */
struct bans {
	struct ban items[BANS_MAX];
};

/* NULL if the address is not banned now. */
const struct ban *bans_find(const struct bans *bs, const uint8_t key[PEER_KEY_BYTES]);

size_t bans_count(const struct bans *bs); /* those in force that disconnect */

/* Starts the time again if the address is banned already, so an address that continues gets no gap. */
void bans_add(struct bans *bs, const uint8_t key[PEER_KEY_BYTES], bool cuts, const char *why);

#endif
