/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int parse_port(const char *text)
{
	int port = 0;

	if (!*text || strlen(text) > 5)
		return -1;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -1;
		port = port * 10 + (*text - '0');
	}
	return port <= 65535 ? port : -1;
}

/* Finds the host inside "host:port" or "[v6]:port"; the text of the port follows it. */
static bool find_host(const char *address, const char **host, size_t *len, const char **port)
{
	const char *colon = strrchr(address, ':');
	const char *close = strchr(address, ']');

	if (!colon)
		return false;
	*port = colon + 1;
	if (*address == '[') {
		*host = address + 1;
		*len = close ? (size_t)(close - *host) : 0;
		return close && close + 1 == colon;
	}
	*host = address;
	*len = (size_t)(colon - address);
	return !memchr(address, ':', *len) && !close;
}

int address_split(const char *address, char host[ADDRESS_HOST_BYTES], int *port, struct err *e)
{
	const char *at, *port_text;
	size_t len;

	if (!find_host(address, &at, &len, &port_text) || !len || len >= ADDRESS_HOST_BYTES)
		return err_set(e, ERR_INVALID, "address '%.80s': expected HOST:PORT or [IPV6]:PORT",
			       address);
	*port = parse_port(port_text);
	if (*port < 0)
		return err_set(e, ERR_INVALID, "address '%.80s': the port is not 0 to 65535",
			       address);
	memcpy(host, at, len);
	host[len] = '\0';
	return 0;
}

bool address_is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, host, &v6) == 1)
		return IN6_IS_ADDR_LOOPBACK(&v6) ||
		       (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
	return !strcasecmp(host, "localhost");
}

int address_check_url(const char *url, const char *what, struct err *e)
{
	char host[ADDRESS_HOST_BYTES];
	size_t len;

	if (!strncmp(url, "https://", 8))
		return 0;
	if (!strncmp(url, "http://", 7)) {
		len = strcspn(url + 7, ":/?#");
		/* "127.0.0.1:1@example.com" is a name with a password, at another host */
		if (len < sizeof(host) && !memchr(url + 7, '@', strcspn(url + 7, "/?#"))) {
			memcpy(host, url + 7, len);
			host[len] = '\0';
			if (address_is_loopback(host))
				return 0;
		}
	}
	return err_set(e, ERR_INVALID, "%s '%.100s': use https", what, url);
}

int address_check_listener(const char *address, bool has_tls, bool insecure, struct err *e)
{
	char host[ADDRESS_HOST_BYTES];
	int port;
	int rc = address_split(address, host, &port, e);

	if (rc || has_tls || insecure || address_is_loopback(host))
		return rc;
	return err_set(
		e, ERR_DENIED,
		"%s can be reached from other hosts: use --cert and --key for TLS, or --insecure "
		"to listen without it",
		address);
}
