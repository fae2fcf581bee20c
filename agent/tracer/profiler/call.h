/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One capture of one framework process: asks its tensorflow.ProfilerService for the window, stores the
 * XSpace that comes back, or says in a typed reason why there is none. Loop thread.
 */
#ifndef AGENT_TRACER_PROFILER_CALL_H
#define AGENT_TRACER_PROFILER_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct rpc;
struct profiler_call;

struct profiler_call_conf { /* all borrowed for the call of profiler_call_start() */
	struct loop *loop;
	struct rpc *rpc;
	int *live; /* outlives all calls: how many of them have callbacks under way */
	const char *address;
	int64_t pid; /* whose root an older server's file lies in; 0 = unknown */
	const char *session, *host, *dir;
	int64_t t0_raw_ns, t1_raw_ns, t0_real_ns;
	int64_t give_up_mono_ns;
	const void *options; /* serialized tensorflow.ProfileOptions */
	size_t options_len;
	bool (*take_room)(void *arg, uint64_t bytes); /* as in tracer.h; not after done */
	void (*done)(void *arg); /* once, never from inside profiler_call_start() */
	void *arg;
};

struct profiler_result {
	const char *reason; /* typed, proto/reasons.h; "" when ok */
	bool incomplete; /* there is a file, and a reason to doubt it */
	char detail[256];
	char *path; /* the XSpace; NULL if there is none */
	int64_t start_real_ns; /* its times count from here */
};

/* Yours: profiler_call_free(). */
struct profiler_call *profiler_call_start(const struct profiler_call_conf *conf);

/* Cancels what is under way and asks the server to let go; removes a file that was not taken. `done`
 * is not called any more. NULL is fine. */
void profiler_call_free(struct profiler_call *c);

/* The window ends earlier: what was recorded until then is kept. */
void profiler_call_stop(struct profiler_call *c, int64_t t1_raw_ns);

void profiler_call_set_pid(struct profiler_call *c, int64_t pid);
bool profiler_call_is_done(const struct profiler_call *c);

/* After done; `path` may be taken by setting it to NULL. */
struct profiler_result *profiler_call_result(struct profiler_call *c);

#endif
