/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that have taken too much of a server's port, for a while. Private to net/. */
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
	bool cuts; /* also the connections that it has; else only new ones are refused */
};

/* Zeroed is empty. */
struct bans {
	struct ban items[BANS_MAX];
};

/* NULL if the address is not banned now. */
const struct ban *bans_find(const struct bans *bs, const uint8_t key[PEER_KEY_BYTES]);

/* Each judgement begins the time anew: an address that goes on is not let in for a moment each time. */
void bans_add(struct bans *bs, const uint8_t key[PEER_KEY_BYTES], bool cuts, const char *why);

#endif
