/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/local/peer_owner.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/address.h"

#define STATE_ESTABLISHED 1

struct end {
	int words; /* words of the address: 1 or 4 */
	uint32_t address[4]; /* as in memory */
	unsigned int port;
};

/* "ipv4:1.2.3.4:5" and "ipv6:[::1]:5", whose brackets may be escaped, to "1.2.3.4:5" and "[::1]:5". */
static bool strip_scheme(const char *peer, char *out, size_t size)
{
	size_t n = 0;

	if (strncmp(peer, "ipv4:", 5) && strncmp(peer, "ipv6:", 5))
		return false;
	for (peer += 5; *peer && n + 1 < size; n++) {
		bool opens = !strncasecmp(peer, "%5b", 3), closes = !strncasecmp(peer, "%5d", 3);

		out[n] = opens ? '[' : closes ? ']' : *peer;
		peer += opens || closes ? 3 : 1;
	}
	out[n] = '\0';
	return !*peer;
}

static bool parse_peer(const char *peer, struct end *end)
{
	char text[ADDRESS_HOST_BYTES], host[ADDRESS_HOST_BYTES];
	struct err e;
	int port;

	*end = (struct end){ 0 };
	if (!strip_scheme(peer, text, sizeof(text)) || address_split(text, host, &port, &e))
		return false;
	end->port = (unsigned int)port;
	end->words = 1;
	if (inet_pton(AF_INET, host, end->address) == 1)
		return true;
	end->words = 4;
	return inet_pton(AF_INET6, host, end->address) == 1;
}

/* "0100007F:AA73" */
static bool parse_end(const char *text, int words, struct end *end)
{
	*end = (struct end){ .words = words };
	for (int i = 0; i < words; i++, text += 8) {
		if (sscanf(text, "%8" SCNx32, &end->address[i]) != 1)
			return false;
	}
	return sscanf(text, ":%4x", &end->port) == 1;
}

/* True, with `*uid` set, if the line lists the socket. */
static bool parse_line(const char *line, const struct end *peer, int port, unsigned int *uid)
{
	char local[48], remote[48];
	struct end own, other;
	unsigned int state;
	unsigned long long inode;

	if (sscanf(line, " %*d: %47s %47s %x %*s %*s %*s %u %*d %llu", local, remote, &state, uid,
		   &inode) != 5)
		return false;
	return state == STATE_ESTABLISHED && inode && parse_end(local, peer->words, &own) &&
	       parse_end(remote, peer->words, &other) && own.port == peer->port &&
	       other.port == (unsigned int)port &&
	       !memcmp(own.address, peer->address, sizeof(own.address));
}

static bool find_uid(const char *path, const struct end *peer, int port, unsigned int *uid)
{
	FILE *f = fopen(path, "re");
	char line[512];
	bool found = false;

	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = parse_line(line, peer, port, uid);
	fclose(f);
	return found;
}

/* A process with an IPv6 socket may use it for IPv4. */
static bool find_mapped(const char *path, const struct end *v4, int port, unsigned int *uid)
{
	struct end mapped = { .words = 4, .port = v4->port };

	mapped.address[2] = htonl(0xffff);
	mapped.address[3] = v4->address[0];
	return find_uid(path, &mapped, port, uid);
}

int peer_owner_check(const char *peer, int port, const char *folder, struct err *e)
{
	char tcp[128], tcp6[128];
	struct end end;
	unsigned int uid;
	bool found;

	snprintf(tcp, sizeof(tcp), "%s/tcp", folder);
	snprintf(tcp6, sizeof(tcp6), "%s/tcp6", folder);
	found = parse_peer(peer, &end) &&
		(find_uid(end.words == 1 ? tcp : tcp6, &end, port, &uid) ||
		 (end.words == 1 && find_mapped(tcp6, &end, port, &uid)));
	if (!found)
		return err_set(e, ERR_DENIED, "the owner of the socket %.80s cannot be found",
			       peer);
	if (uid && uid != geteuid())
		return err_set(
			e, ERR_DENIED,
			"user %u may not profile this host: only root and the agent's user %u", uid,
			(unsigned int)geteuid());
	return 0;
}

bool peer_is_loopback(const char *peer)
{
	char text[ADDRESS_HOST_BYTES], host[ADDRESS_HOST_BYTES];
	struct err e;
	int port;

	return strip_scheme(peer, text, sizeof(text)) && !address_split(text, host, &port, &e) &&
	       address_is_loopback(host);
}
