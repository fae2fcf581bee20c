/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening TCP sockets of the agent's network namespace. The kernel lists them by netlink
 * (sock_diag(7)); where that is missing or refused, they are read from net/tcp and net/tcp6. That costs more:
 * for these files the kernel walks all connections, and its whole hash table even without any.
 */
#ifndef AGENT_PROC_LISTENERS_H
#define AGENT_PROC_LISTENERS_H

#include "agent/proc/scan.h"

/* Sockets in no order; of each, inode, address, port and `local` are set. The caller frees v. */
struct listener_list {
	struct proc_listener *v;
	size_t n, cap;
};

/* Lists the sockets: if `root` is "/proc", by netlink if possible, otherwise from the files below `root`. ERR_IO if
 * there is no list. */
MUST_CHECK int listeners_read(const char *root, struct listener_list *out, struct err *e);

/* The two ways, for listeners_read() and tests. They add to `out`, which may be filled in part on failure. */
MUST_CHECK int listeners_by_netlink(struct listener_list *out, struct err *e);
MUST_CHECK int listeners_by_files(const char *root, struct listener_list *out, struct err *e);

#endif
