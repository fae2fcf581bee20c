/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery of framework profilers on this host. Every few seconds a scan lists the listening sockets of
 * local processes that map a framework. Each new socket gets one probe: a Terminate of a session that does
 * not exist. A tensorflow.ProfilerService answers OK; another server lacks the method. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_DISCOVER_H
#define AGENT_TRACER_PROFILER_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct local_pods;
struct loop;
struct rpc;
struct discover;

struct discover_conf {
	struct loop *loop;
	struct rpc *rpc;
	const struct local_pods
		*pods; /* processes whose pod opted out are left alone; NULL = none */
	const char *proc; /* "/proc"; in tests a tree that looks like it */
	bool probe; /* false: no probes and no periodic scans; discover_owner() only */
};

/* What is known of the server at a socket. */
enum discover_kind {
	DISCOVER_UNPROBED, /* probes have no answer yet */
	DISCOVER_PROBING,
	DISCOVER_PROFILER,
	DISCOVER_OTHER, /* not a profiler */
};

/* A listening socket of a framework's process, or the owner of a port. */
struct discover_target {
	char address[64]; /* "127.0.0.1:9999" */
	int port;
	int64_t pid;
	char comm[32];
	char command[96];
	const char *framework; /* NULL = none */
	enum discover_kind kind;
};

struct discover *discover_new(const struct discover_conf *conf);

/* Drops all callbacks. Turns the loop until the probes under way have ended, at most a second.
 * NULL is fine. */
void discover_free(struct discover *d);

/* The profilers known now; borrowed until the loop turns. */
const struct discover_target *discover_targets(const struct discover *d, size_t *n);

/* All listening sockets of frameworks' processes: the i-th, in order of pid; NULL after the last. */
const struct discover_target *discover_candidate(const struct discover *d, size_t i);

/* The process that listens on this port at the loopback address, profiler or not; false if unknown. */
bool discover_owner(const struct discover *d, int port, struct discover_target *out);

/* True if the sockets of some processes cannot be listed, because CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH is missing. */
bool discover_is_incomplete(const struct discover *d);

/* Scans again; calls fn(arg) once, later, when the scan and its probes have ended (at most a second). A scan
 * that ended less than 100 ms ago is not repeated. */
void discover_refresh(struct discover *d, void (*fn)(void *arg), void *arg);
void discover_forget(struct discover *d, void *arg); /* drops the callbacks with this arg */

#endif
