/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framework profilers on this host, found by themselves: every few seconds the listening sockets of
 * local processes that map a framework are looked up, and each is asked once, by a Terminate of a session
 * that nobody has, whether it is a tensorflow.ProfilerService: those answer OK, others do not know the
 * method. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_DISCOVER_H
#define AGENT_TRACER_PROFILER_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct rpc;
struct discover;

struct discover_conf {
	struct loop *loop;
	struct rpc *rpc;
	const char *proc; /* "/proc"; in tests a tree that looks like it */
	bool probe; /* false: only tells whose a port is, and only when refreshed */
};

/* A profiler that answered, or the owner of a port. */
struct discover_target {
	char address[64]; /* "127.0.0.1:9999" */
	int port;
	int64_t pid;
	char comm[32];
};

struct discover *discover_new(const struct discover_conf *conf);

/* Waiters are forgotten. Turns the loop until the probes under way are over (bounded). NULL is fine. */
void discover_free(struct discover *d);

/* The profilers known now; borrowed until the loop turns. */
const struct discover_target *discover_targets(const struct discover *d, size_t *n);

/* Who listens on this port at the loopback address, profiler or not; false if unknown. */
bool discover_owner(const struct discover *d, int port, struct discover_target *out);

/* Some processes did not show us their sockets: CAP_SYS_PTRACE is missing. */
bool discover_is_blind(const struct discover *d);

/* Looks once more; fn(arg) is called once, later, when that look and its probes (at most a second) are
 * over. A look that is just over counts. */
void discover_refresh(struct discover *d, void (*fn)(void *arg), void *arg);
void discover_forget(struct discover *d, void *arg); /* fn is not called any more for this arg */

#endif
