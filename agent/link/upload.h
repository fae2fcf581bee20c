/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends what this host has of a session to the aggregator, on a connection of its own so that control never
 * waits behind data; up to 1 MiB goes over the control stream's. A worker reads and sums up 1 MiB at a time; at most 4 MiB stand in the queue to
 * the network. A link that breaks, and an aggregator that has no room or is away, are tried again after
 * growing, jittered pauses until the deadline, each time from where the aggregator says. Loop thread.
 */
#ifndef AGENT_LINK_UPLOAD_H
#define AGENT_LINK_UPLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct link_env;
struct rpc_channel;
struct upload;

struct upload_request {
	const char *session; /* borrowed for the call, as is path */
	const char *path;
	uint64_t bytes; /* of the file at path */
	uint32_t crc32; /* zlib's, of it */
	const uint64_t *files; /* it holds files of so many bytes; borrowed until the end */
	size_t n_files;
	uint64_t instance; /* of our Hello */
	int64_t deadline_mono_ns;

	/* The connection of the control link, for a small file; NULL while there is none. */
	struct rpc_channel *(*control_channel)(void *arg);

	/* After each chunk has been handed to the network. */
	void (*progress)(void *arg, uint64_t bytes_done);

	/* Once, unless cancelled: 0 means stored durably, ERR_TIMEOUT that the deadline came while
	 * bytes were on their way. The upload is dead when it returns. */
	void (*done)(void *arg, int rc, const struct err *e);
	void *arg;
};

/* Never calls back from inside. Yours until `done` or upload_cancel(). */
struct upload *upload_start(const struct link_env *env, const struct upload_request *req);
void upload_cancel(struct upload *u); /* `done` is not called; NULL is fine */

#endif
