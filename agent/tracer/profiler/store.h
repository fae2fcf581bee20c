/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a checked XSpace file from a profiler's reply. Blocks; for a worker. */
#ifndef AGENT_TRACER_PROFILER_STORE_H
#define AGENT_TRACER_PROFILER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tracer/profiler/file.h"
#include "base/err.h"

struct rpc_msg;

struct profiler_store {
	/* Given; borrowed. */
	const char *path; /* the file to make; must not exist yet */
	struct rpc_msg *msg; /* the reply, for profiler_store_reply() */
	struct profiler_place place; /* of an older server's file; its root is filled in */
	int64_t pid;
	uint64_t limit_bytes; /* largest size of an older server's file */
	bool no_space; /* the spool has no space for that file: it is only removed */

	/* Results. */
	uint64_t need_bytes; /* that file's size, if it is above limit_bytes */
	int rc;
	struct err err;
	bool has_xspace, empty_trace; /* of the reply */
	bool has_file; /* at `path` is an XSpace that is not empty */
	int64_t start_real_ns; /* its profile_start_time; 0 = none */
};

/* Writes the reply's XSpace. A reply without one is no error: an older server writes a file. */
void profiler_store_reply(struct profiler_store *s);

/* Copies an older server's file and then removes the original; with `no_space` only removes it. `rc` is
 * ERR_NOT_FOUND if it does not exist (yet), ERR_FULL if there is no space. */
void profiler_store_file(struct profiler_store *s);

/* True if profiler_store_file() must be called again, with a limit_bytes of need_bytes or with `no_space`. Any
 * thread. */
bool profiler_store_must_repeat(const struct profiler_store *s);

/* Removes an older server's file and its folders, if they are there. `pid`: of the server, 0 = unknown. */
void profiler_store_remove(int64_t pid, const char *repository, const char *session);

#endif
