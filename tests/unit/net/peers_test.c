/* SPDX-License-Identifier: Apache-2.0 */
/* The share of each address in an HTTP server's connections. */
#include "net/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/lib/check.h"

#define MAX 1000

struct crowd {
	struct peers *peers;
	struct peer_share *joined[MAX];
	size_t n;
};

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage s = { .ss_family = AF_INET };

	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&s)->sin_addr) == 1)
		return s;
	s.ss_family = AF_INET6;
	CHECK_EQ(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&s)->sin6_addr), 1);
	return s;
}

/* As many connections of this address as are admitted. */
static size_t fill(struct crowd *c, const char *text)
{
	struct sockaddr_storage a = address_of(text);
	size_t n = 0;

	while (peers_admit(c->peers, (struct sockaddr *)&a)) {
		CHECK(c->n < MAX);
		c->joined[c->n++] = peers_join(c->peers, (struct sockaddr *)&a);
		n++;
	}
	return n;
}

static void leave(struct crowd *c, size_t n)
{
	while (n--)
		peers_leave(c->peers, c->joined[--c->n]);
}

int main(void)
{
	struct crowd c = { .peers = peers_new(MAX) };

	CHECK_EQ(fill(&c, "10.0.0.1"), 500);
	CHECK_EQ(fill(&c, "::ffff:10.0.0.1"), 0);
	CHECK_EQ(fill(&c, "10.0.0.2"), 250);
	CHECK_EQ(fill(&c, "fd00::1"), 125);
	CHECK_EQ(fill(&c, "fd00::2"), 0);
	CHECK_EQ(fill(&c, "fd00:0:0:1::1"), 63);
	CHECK(fill(&c, "127.0.0.1") > 20);
	leave(&c, c.n - 500);
	CHECK_EQ(fill(&c, "10.0.0.3"), 250);
	leave(&c, c.n);
	CHECK_EQ(fill(&c, "10.0.0.4"), 500);
	leave(&c, c.n);
	peers_free(c.peers);
	return 0;
}
