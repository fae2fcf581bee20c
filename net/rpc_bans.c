/* SPDX-License-Identifier: Apache-2.0 */
#include "net/rpc_bans.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/socket.h"

#define BAN_NS (10 * NS_PER_S)

const struct ban *bans_find(const struct bans *bs, const uint8_t key[PEER_KEY_BYTES])
{
	int64_t now_ns = now_mono_ns();

	for (size_t i = 0; i < BANS_MAX; i++) {
		if (bs->items[i].until_ns > now_ns &&
		    !memcmp(bs->items[i].key, key, PEER_KEY_BYTES))
			return &bs->items[i];
	}
	return NULL;
}

size_t bans_count(const struct bans *bs)
{
	int64_t now_ns = now_mono_ns();
	size_t n = 0;

	for (size_t i = 0; i < BANS_MAX; i++)
		n += bs->items[i].until_ns > now_ns && bs->items[i].cuts;
	return n;
}

static struct ban *find_oldest(struct bans *bs)
{
	struct ban *oldest = &bs->items[0];

	for (size_t i = 1; i < BANS_MAX; i++) {
		if (bs->items[i].until_ns < oldest->until_ns)
			oldest = &bs->items[i];
	}
	return oldest;
}

/* "10.0.0.7" */
static void name_key(const uint8_t key[PEER_KEY_BYTES], char out[INET6_ADDRSTRLEN])
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6 };

	memcpy(&address.sin6_addr, key, PEER_KEY_BYTES);
	socket_name((struct sockaddr *)&address, out);
}

void bans_add(struct bans *bs, const uint8_t key[PEER_KEY_BYTES], bool cuts, const char *why)
{
	struct ban *b = (struct ban *)bans_find(bs, key);
	bool is_known = b && b->cuts >= cuts;
	char name[INET6_ADDRSTRLEN];

	if (!b) {
		b = find_oldest(bs);
		b->cuts = false;
		memcpy(b->key, key, PEER_KEY_BYTES);
	}
	b->cuts |= cuts;
	b->until_ns = now_mono_ns() + BAN_NS;
	if (is_known)
		return;
	name_key(key, name);
	log_warn("NET-BANNED", "address=%s seconds=%d reason=\"%s\"", name,
		 (int)(BAN_NS / NS_PER_S), why);
}
