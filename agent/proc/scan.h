/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening TCP sockets of the agent's network namespace, each with the process that holds it and whether
 * that process has a machine learning framework mapped.
 *
 * A scan blocks on /proc and runs on a worker; one at a time. The owner of a socket is remembered as long as
 * the socket exists. So, as long as no socket is new, a scan only lists the sockets and checks their owners. A new socket
 * is first searched for in processes that are new or have more or fewer descriptors than before
 * (and not very many), in the next scan in all.
 * The library that opens a profiler's socket is mapped before the socket exists, so the first result is
 * final.
 */
#ifndef AGENT_PROC_SCAN_H
#define AGENT_PROC_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct proc_listener {
	uint64_t inode;
	char address[64]; /* to dial: "127.0.0.1:9999" for a wildcard socket */
	int port;
	bool local; /* reachable at 127.0.0.1 */
	int64_t pid; /* 0 = unknown: no process that the agent may examine has it */
	uint64_t start_ticks; /* of the process, since boot: with the pid its identity */
	char comm[32];
	char command[96]; /* "python train.py": without arguments, which may hold secrets */
	const char *framework; /* that it has mapped: "jax", "tensorflow", ...; NULL = none */
	unsigned int misses; /* scans that did not find its process */
};

struct proc_scan;

/* `root` is "/proc", or a tree like it. The caller frees the scan with proc_scan_free(). */
struct proc_scan *proc_scan_new(const char *root);
void proc_scan_free(struct proc_scan *s); /* NULL is fine */

/* Scans. ERR_IO if there is no list of sockets; the result of the scan before stays. */
MUST_CHECK int proc_scan_run(struct proc_scan *s, struct err *e);

/* Any thread: a scan that is under way, and later ones, search no more processes. To be called before the end. */
void proc_scan_stop(struct proc_scan *s);

/* In order of inode; borrowed until the next run. */
const struct proc_listener *proc_scan_listeners(const struct proc_scan *s, size_t *n);

/* True if the sockets of some processes cannot be listed, because CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH is
 * missing. */
bool proc_scan_is_incomplete(const struct proc_scan *s);

#endif
