/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets frameworks record all the time, for snapshots, by StartContinuousProfiling of their profiler servers.
 * A server has one such session, and while it lasts, the process's profiler is in use. Its recording grows
 * without bound, so a session is ended and begun anew before it gets too long. Loop thread.
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

/* A capture needs the profilers: all sessions end. They begin again after as many resumes as pauses. */
void continuous_pause(struct continuous *k);
void continuous_resume(struct continuous *k);

/* Calls fn for each server; `lack` is NULL if it records, else says why not. */
void continuous_each(const struct continuous *k,
		     void (*fn)(void *arg, const char *address, const char *lack), void *arg);

/* After a snapshot of that server. continuous_taken(): the server's session goes on, and its next data begins
 * now. continuous_lost(): the session is ended, if it has not ended by itself, and a new one begun. */
void continuous_taken(struct continuous *k, const char *address);
void continuous_lost(struct continuous *k, const char *address);

#endif
