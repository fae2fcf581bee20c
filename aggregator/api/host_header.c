/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/host_header.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "net/address.h"

struct literal {
	int family; /* 0 = not an address */
	unsigned char bytes[16];
};

static struct literal literal_of(const char *host)
{
	struct literal l = { 0 };

	if (inet_pton(AF_INET, host, l.bytes) == 1)
		l.family = AF_INET;
	else if (inet_pton(AF_INET6, host, l.bytes) == 1)
		l.family = AF_INET6;
	return l;
}

static bool is_unspecified(const struct literal *l)
{
	static const unsigned char zero[16];

	return l->family && !memcmp(l->bytes, zero, sizeof(zero));
}

/* The host of "host", "host:port" or "[v6]:port"; false if it is none of these. */
static bool split_header(const char *header, char host[ADDRESS_HOST_BYTES])
{
	const char *start = header, *end = header + strcspn(header, ":"), *port = end;
	size_t len;

	if (*header == '[') {
		start = header + 1;
		end = strchr(header, ']');
		if (!end)
			return false;
		port = end + 1;
	}
	len = (size_t)(end - start);
	if (!len || len >= ADDRESS_HOST_BYTES || (*port && *port != ':'))
		return false;
	for (port += *port == ':'; *port; port++) {
		if (!isdigit((unsigned char)*port))
			return false;
	}
	memcpy(host, start, len);
	host[len] = '\0';
	return true;
}

static bool is_listed(const struct conf_list *names, const char *host)
{
	for (size_t i = 0; names && i < names->n; i++) {
		if (!strcasecmp(names->items[i], host))
			return true;
	}
	return false;
}

static bool is_machine_name(const char *host)
{
	char own[ADDRESS_HOST_BYTES] = "";

	return !gethostname(own, sizeof(own) - 1) && *own && !strcasecmp(own, host);
}

bool host_header_allowed(const char *header, const char *listener, const struct conf_list *names)
{
	char host[ADDRESS_HOST_BYTES], own[ADDRESS_HOST_BYTES] = "";
	struct literal asked, bound;
	struct err e;
	int port;

	if (!header)
		return true;
	if (!split_header(header, host))
		return false;
	if (address_is_loopback(host) || is_listed(names, host))
		return true;
	if (!listener || address_split(listener, own, &port, &e))
		return false;
	asked = literal_of(host);
	bound = literal_of(own);
	if (asked.family)
		return is_unspecified(&bound) || !bound.family ||
		       !memcmp(&asked, &bound, sizeof(asked));
	return !strcasecmp(own, host) || is_machine_name(host);
}
