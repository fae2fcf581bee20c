/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets for the files of this folder; not a front door. */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/err.h"

/* Makes a bound, non-blocking socket of `type` at "host:port"; a SOCK_STREAM one listens already.
 * "[::]" takes IPv4 too. `*port` (may be NULL) gets the port. The fd is yours: close(). */
MUST_CHECK int socket_bind(const char *address, int type, int *fd, int *port, struct err *e);

/* A non-blocking socket connected to host and port; a name is looked up, which blocks. */
MUST_CHECK int socket_connect(const char *host, int port, int type, int *fd, struct err *e);

/* "10.0.0.7", "fe80::1", and an IPv4 address in IPv6 clothes as IPv4. */
void socket_name(const struct sockaddr *addr, char out[INET6_ADDRSTRLEN]);

#endif
