/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <unistd.h>

#include "net/address.h"

#define BACKLOG 4096 /* a peer that finds the backlog full tries again after 1 s, 3 s, ... */

static int resolve(const char *host, int port, int type, int flags, struct addrinfo **out,
		   struct err *e)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = type,
		.ai_flags = AI_NUMERICSERV | flags,
	};
	char service[16];
	int rc;

	snprintf(service, sizeof(service), "%d", port);
	rc = getaddrinfo(host, service, &hints, out);
	if (rc == EAI_SYSTEM)
		return err_errno(e, "looking up %s", host);
	if (rc)
		return err_set(e, ERR_NOT_FOUND, "looking up %s: %s", host, gai_strerror(rc));
	return 0;
}

static void set_option(int fd, int level, int option, int value)
{
	/* Optional: the socket works without them. */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

static int bind_one(const struct addrinfo *ai)
{
	int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (ai->ai_socktype == SOCK_STREAM)
		set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (ai->ai_family == AF_INET6)
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) ||
	    (ai->ai_socktype == SOCK_STREAM && listen(fd, BACKLOG))) {
		int number = errno;

		close(fd);
		errno = number;
		return -1;
	}
	return fd;
}

static int connect_one(const struct addrinfo *ai)
{
	int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) && errno != EINPROGRESS) {
		int number = errno;

		close(fd);
		errno = number;
		return -1;
	}
	return fd;
}

/* Tries the addresses of a name in turn and uses the first that works. */
static int use_first(const struct addrinfo *list, int (*make)(const struct addrinfo *))
{
	int fd = -1;

	for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
		fd = make(ai);
	return fd;
}

static int bound_port(int fd)
{
	struct sockaddr_storage addr = { 0 };
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return 0;
	if (addr.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
	return ntohs(((struct sockaddr_in *)&addr)->sin_port);
}

int socket_bind(const char *address, int type, int *fd, int *port, struct err *e)
{
	char host[ADDRESS_HOST_BYTES];
	struct addrinfo *list;
	int want;
	int rc = address_split(address, host, &want, e);

	if (!rc)
		rc = resolve(host, want, type, AI_PASSIVE, &list, e);
	if (rc)
		return rc;
	*fd = use_first(list, bind_one);
	if (*fd < 0)
		rc = err_errno(e, "listening at %s", address);
	else if (port)
		*port = bound_port(*fd);
	freeaddrinfo(list);
	return rc;
}

int socket_connect(const char *host, int port, int type, int *fd, struct err *e)
{
	struct addrinfo *list;
	int rc = resolve(host, port, type, 0, &list, e);

	if (rc)
		return rc;
	*fd = use_first(list, connect_one);
	if (*fd < 0)
		rc = err_errno(e, "connecting to %s port %d", host, port);
	freeaddrinfo(list);
	return rc;
}

void socket_name(const struct sockaddr *addr, char out[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
	const void *raw = &((const struct sockaddr_in *)addr)->sin_addr;
	int family = addr->sa_family;

	if (family == AF_INET6) {
		raw = &v6->sin6_addr;
		if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
			raw = &v6->sin6_addr.s6_addr[12];
			family = AF_INET;
		}
	}
	if (!inet_ntop(family, raw, out, INET6_ADDRSTRLEN))
		snprintf(out, INET6_ADDRSTRLEN, "?");
}
