/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One capture of one framework process: calls its tensorflow.ProfilerService for the window and stores
 * the XSpace of the reply. Without one the result has a typed reason. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_CALL_H
#define AGENT_TRACER_PROFILER_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lane;
struct loop;
struct rpc;
struct profiler_call;
struct sweep;

struct profiler_call_conf { /* all borrowed for the call of profiler_call_start() */
	struct loop *loop;
	struct rpc *rpc;
	struct sweep *sweep; /* removes the files of calls that are freed before their answer */
	struct lane *lane; /* outlives all calls */
	int *live; /* counts the calls with callbacks under way; outlives all calls */
	const char *address;
	int64_t pid; /* of the server; an older server's file is below its root; 0 = unknown */
	const char *session, *host, *dir;
	int64_t t0_raw_ns, t1_raw_ns, t0_real_ns;
	int64_t give_up_mono_ns;
	/* take a snapshot of the server's continuous session now, whatever the window */
	bool snapshot;
	size_t max_reply_bytes; /* 0 = LIMIT_RESPONSE_BYTES, which is the most */
	const void *options; /* serialized tensorflow.ProfileOptions; not for a snapshot */
	size_t options_len;
	bool (*reserve_bytes)(void *arg, uint64_t bytes); /* as in tracer.h; not after done */
	void (*done)(void *arg); /* called once, after profiler_call_start() has returned */
	void *arg;
};

struct profiler_result {
	const char *reason; /* typed, proto/reasons.h; "" when ok */
	bool incomplete; /* there is a file although there is a reason */
	char detail[512];
	char *path; /* the XSpace; NULL if there is none */
	int64_t start_real_ns; /* the XSpace's times count from here */
};

/* The caller frees it with profiler_call_free(). */
struct profiler_call *profiler_call_start(const struct profiler_call_conf *conf);

/* Cancels the call, terminates the server's recording and removes a file that was not taken. `done` is
 * not called after this. NULL is fine. */
void profiler_call_free(struct profiler_call *c);

/* The window ends earlier; the data until then is kept. */
void profiler_call_stop(struct profiler_call *c, int64_t t1_raw_ns);

void profiler_call_set_pid(struct profiler_call *c, int64_t pid);
bool profiler_call_is_done(const struct profiler_call *c);

/* After done; `path` may be taken by setting it to NULL. */
struct profiler_result *profiler_call_result(struct profiler_call *c);

#endif
