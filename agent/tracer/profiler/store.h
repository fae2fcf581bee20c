/* SPDX-License-Identifier: Apache-2.0 */
/* From a profiler's answer to an XSpace file that was looked into. Blocks; for a worker. */
#ifndef AGENT_TRACER_PROFILER_STORE_H
#define AGENT_TRACER_PROFILER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tracer/profiler/file.h"
#include "base/err.h"

struct rpc_msg;

struct profiler_store {
	/* Given; borrowed. */
	const char *path; /* the file to make; not there yet */
	struct rpc_msg *msg; /* the reply, for profiler_store_reply() */
	struct profiler_place place; /* of an older server's file; its root is filled in */
	int64_t pid;
	uint64_t room_bytes; /* an older server's file may have */
	bool unwanted; /* there is no room for it: only removes it there */

	/* Found. */
	uint64_t need_bytes; /* what that file has, if it is more than it may */
	int rc;
	struct err err;
	bool has_xspace, empty_trace; /* said the reply */
	bool has_file; /* it is at `path`, and is an XSpace that holds something */
	int64_t start_real_ns; /* profile_start_time; 0 if it does not say */
};

/* Writes the reply's XSpace. A reply without one is no error: an older server's lies in a file. */
void profiler_store_reply(struct profiler_store *s);

/* Fetches an older server's file and, found or not wanted any more, removes it there.
 * ERR_NOT_FOUND if it is not there, yet; ERR_FULL for want of room. */
void profiler_store_file(struct profiler_store *s);

/* It is to be called once more: with room for need_bytes, or because the file is unwanted. Any thread. */
bool profiler_store_asks(const struct profiler_store *s);

#endif
