/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets for the files of this folder. Private to net/. */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/err.h"

/* Makes a bound, non-blocking socket of `type` at "host:port"; a SOCK_STREAM one listens already.
 * "[::]" accepts IPv4 too. `*port` (may be NULL) gets the port. The caller closes the fd. */
MUST_CHECK int socket_bind(const char *address, int type, int *fd, int *port, struct err *e);

/* A non-blocking socket connected to host and port; resolving a name blocks. */
MUST_CHECK int socket_connect(const char *host, int port, int type, int *fd, struct err *e);

/* "10.0.0.7", "fe80::1"; an IPv4 address mapped into IPv6 is written as IPv4. */
void socket_name(const struct sockaddr *addr, char out[INET6_ADDRSTRLEN]);

#endif
