/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_peers.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/mem.h"

struct http_peer {
	uint8_t key[16];
	size_t n;
	LIST_ENTRY(http_peer) entry;
};

struct http_peers {
	pthread_mutex_t lock; /* guards all below */
	LIST_HEAD(, http_peer) peers; /* no more than there are connections */
	size_t n, max;
};

struct http_peers *http_peers_new(size_t max_connections)
{
	struct http_peers *p = xcalloc(1, sizeof(*p));

	pthread_mutex_init(&p->lock, NULL);
	LIST_INIT(&p->peers);
	p->max = max_connections;
	return p;
}

void http_peers_free(struct http_peers *p)
{
	struct http_peer *peer;

	if (!p)
		return;
	while ((peer = LIST_FIRST(&p->peers))) {
		LIST_REMOVE(peer, entry);
		free(peer);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* IPv4 as it is mapped into IPv6; of IPv6 the first 64 bits. */
static void make_key(const struct sockaddr *address, uint8_t key[16])
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

	memset(key, 0, 16);
	if (address->sa_family == AF_INET6) {
		memcpy(key, &v6->sin6_addr, IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? 16 : 8);
	} else if (address->sa_family == AF_INET) {
		memset(key + 10, 0xff, 2);
		memcpy(key + 12, &v4->sin_addr, 4);
	}
}

/* NULL if it has no connection. The lock is held. */
static struct http_peer *find(struct http_peers *p, const uint8_t key[16])
{
	struct http_peer *peer;

	LIST_FOREACH(peer, &p->peers, entry)
	{
		if (!memcmp(peer->key, key, sizeof(peer->key)))
			break;
	}
	return peer;
}

bool http_peers_admit(struct http_peers *p, const struct sockaddr *address)
{
	const struct http_peer *peer;
	uint8_t key[16];
	bool admitted;

	make_key(address, key);
	pthread_mutex_lock(&p->lock);
	peer = find(p, key);
	admitted = p->n + (peer ? peer->n : 0) < p->max;
	pthread_mutex_unlock(&p->lock);
	return admitted;
}

struct http_peer *http_peers_join(struct http_peers *p, const struct sockaddr *address)
{
	struct http_peer *peer;
	uint8_t key[16];

	make_key(address, key);
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

void http_peers_leave(struct http_peers *p, struct http_peer *peer)
{
	pthread_mutex_lock(&p->lock);
	p->n--;
	if (!--peer->n) {
		LIST_REMOVE(peer, entry);
		free(peer);
	}
	pthread_mutex_unlock(&p->lock);
}
