/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frameworks that record all the time, for snapshots: StartContinuousProfiling of their profiler servers. A server has one
 * such session; while it lasts, its process's profiler is taken. What it records is unbounded, so a session is begun
 * anew before it gets too long. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_CONTINUOUS_H
#define AGENT_TRACER_PROFILER_CONTINUOUS_H

#include <stddef.h>
#include <stdint.h>

struct conf_list;
struct continuous;
struct discover;
struct loop;
struct rpc;

struct continuous_conf {
	struct loop *loop;
	struct rpc *rpc;
	int *live; /* counts calls with callbacks under way; outlives them */
	const char *host;
	const struct conf_list *servers; /* "host:port" */
	const struct discover *discover; /* finds others */
	int64_t keep_ns; /* longest time of one session */
};

struct continuous *continuous_new(const struct continuous_conf *conf);
void continuous_free(struct continuous *k); /* asks all servers to stop; NULL is fine */

/* Captures need the profilers: all sessions end. They begin again after as many resumes. */
void continuous_pause(struct continuous *k);
void continuous_resume(struct continuous *k);

/* Each server there is: `lack` is NULL if it records, else why it does not. */
void continuous_each(const struct continuous *k,
		     void (*fn)(void *arg, const char *address, const char *lack), void *arg);

/* A snapshot was taken there: the session goes on from now; or taking it has failed: it is ended. */
void continuous_taken(struct continuous *k, const char *address);
void continuous_lost(struct continuous *k, const char *address);

#endif
