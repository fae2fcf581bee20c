/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peers.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/mem.h"

struct peer_share {
	uint8_t key[PEER_KEY_BYTES];
	size_t n;
	LIST_ENTRY(peer_share) entry;
};

struct peers {
	pthread_mutex_t lock; /* guards all below */
	LIST_HEAD(, peer_share) peers; /* the addresses that hold at least one */
	size_t n, max;
};

struct peers *peers_new(size_t max)
{
	struct peers *p = xcalloc(1, sizeof(*p));

	pthread_mutex_init(&p->lock, NULL);
	LIST_INIT(&p->peers);
	p->max = max;
	return p;
}

void peers_free(struct peers *p)
{
	struct peer_share *peer;

	if (!p)
		return;
	while ((peer = LIST_FIRST(&p->peers))) {
		LIST_REMOVE(peer, entry);
		free(peer);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void peers_key(const struct sockaddr *address, uint8_t key[PEER_KEY_BYTES])
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

	memset(key, 0, PEER_KEY_BYTES);
	if (address->sa_family == AF_INET6) {
		memcpy(key, &v6->sin6_addr, IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? 16 : 8);
	} else if (address->sa_family == AF_INET) {
		memset(key + 10, 0xff, 2);
		memcpy(key + 12, &v4->sin_addr, 4);
	}
}

/* The share of this address; NULL if it holds nothing. The lock is held. */
static struct peer_share *find(struct peers *p, const uint8_t key[PEER_KEY_BYTES])
{
	struct peer_share *peer;

	LIST_FOREACH(peer, &p->peers, entry)
	{
		if (!memcmp(peer->key, key, sizeof(peer->key)))
			break;
	}
	return peer;
}

bool peers_admit(struct peers *p, const struct sockaddr *address)
{
	const struct peer_share *peer;
	uint8_t key[PEER_KEY_BYTES];
	bool admitted;

	peers_key(address, key);
	pthread_mutex_lock(&p->lock);
	peer = find(p, key);
	admitted = p->n + (peer ? peer->n : 0) < p->max;
	pthread_mutex_unlock(&p->lock);
	return admitted;
}

struct peer_share *peers_join(struct peers *p, const struct sockaddr *address)
{
	struct peer_share *peer;
	uint8_t key[PEER_KEY_BYTES];

	peers_key(address, key);
	pthread_mutex_lock(&p->lock);
	peer = find(p, key);
	if (!peer) {
		peer = xcalloc(1, sizeof(*peer));
		memcpy(peer->key, key, sizeof(key));
		LIST_INSERT_HEAD(&p->peers, peer, entry);
	}
	peer->n++;
	p->n++;
	pthread_mutex_unlock(&p->lock);
	return peer;
}

void peers_leave(struct peers *p, struct peer_share *peer)
{
	pthread_mutex_lock(&p->lock);
	p->n--;
	if (!--peer->n) {
		LIST_REMOVE(peer, entry);
		free(peer);
	}
	pthread_mutex_unlock(&p->lock);
}
