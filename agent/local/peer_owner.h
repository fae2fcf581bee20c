/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the user who owns the other end of a TCP connection over loopback, in the kernel's list of sockets. */
#ifndef AGENT_LOCAL_PEER_OWNER_H
#define AGENT_LOCAL_PEER_OWNER_H

#include <stdbool.h>

#include "base/err.h"

/* 0 if the user of this process or root owns the socket `peer` (as rpc_peer()) that is connected to `port`,
 * else ERR_DENIED. `folder` is "/proc/net". A socket that its process has closed is refused: the kernel then
 * lists it as root's. */
MUST_CHECK int peer_owner_check(const char *peer, int port, const char *folder, struct err *e);

/* Whether the peer's address is a loopback one. */
bool peer_is_loopback(const char *peer);

#endif
