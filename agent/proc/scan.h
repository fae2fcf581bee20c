/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who listens on this host: the listening TCP sockets of the agent's network namespace, each with the
 * process that holds it and whether that process has a machine learning framework mapped.
 *
 * A scan blocks on /proc and belongs on a worker; one at a time. What was found out about a socket is
 * kept as long as the socket lives, so that a scan in the steady state reads two files: the library
 * that opens a profiler's socket is mapped before the socket exists, so the first look is final.
 */
#ifndef AGENT_PROC_SCAN_H
#define AGENT_PROC_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct proc_listener {
	uint64_t inode;
	char address[64]; /* what to dial: "127.0.0.1:9999" for a wildcard socket */
	int port;
	bool local; /* reachable at 127.0.0.1 */
	int64_t pid; /* 0 = of nobody whom we may look at */
	uint64_t start_ticks; /* of the process, since boot: with the pid its identity */
	char comm[32];
	bool framework;
	unsigned int misses; /* scans that did not find who holds it */
};

struct proc_scan;

/* `root` is "/proc", or a tree that looks like it. Yours: proc_scan_free(). */
struct proc_scan *proc_scan_new(const char *root);
void proc_scan_free(struct proc_scan *s); /* NULL is fine */

/* Looks. ERR_IO if there is no list of sockets; what was known stays. */
MUST_CHECK int proc_scan_run(struct proc_scan *s, struct err *e);

/* In order of inode; borrowed until the next run. */
const struct proc_listener *proc_scan_listeners(const struct proc_scan *s, size_t *n);

/* Some processes did not show us their sockets: CAP_SYS_PTRACE is missing. */
bool proc_scan_is_blind(const struct proc_scan *s);

#endif
