/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the process that listens at a port in a network namespace that is not the agent's. Blocks on /proc. */
#ifndef AGENT_PODS_SOCKET_OWNER_H
#define AGENT_PODS_SOCKET_OWNER_H

#include <stddef.h>
#include <stdint.h>

/* Of these processes, which share their network, the one that has the listening TCP socket of this port; 0 = none, or its
 * descriptors may not be listed. `proc` is "/proc". */
int64_t socket_owner(const char *proc, const int64_t *pids, size_t n, int port);

#endif
