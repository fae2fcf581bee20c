/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings this host's file of a session into the store. If the aggregator sends a grant for each file of the
 * session in it, they are put into the store directly (agent/link/put.h), the last one first; the aggregator gets no byte of
 * them. An attempt that fails is followed by another one, with new grants for the files that are left. Where the credit came with
 * a grant for the only file, that is used first, without a call.
 *
 * Else it sends the file to the aggregator, on a connection of its own so that control
 * messages never wait behind data; a file of up to 1 MiB goes over the control link's connection. A worker
 * reads 1 MiB at a time and computes its checksum; at most 4 MiB wait in the queue to the network. When the
 * connection breaks, the aggregator's disk is full or it does not answer, further attempts follow after
 * growing, random pauses until the deadline, each from the offset that the aggregator reports. Loop thread.
 */
#ifndef AGENT_LINK_UPLOAD_H
#define AGENT_LINK_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/tutti/v1/ingest.pb-c.h"

struct capture_file;
struct link_env;
struct puts;
struct rpc_channel;
struct upload;

struct upload_request {
	const char *session; /* borrowed for the call, as is path */
	const char *path;
	uint64_t bytes; /* of the file at path */
	uint32_t crc32; /* zlib's, of the file at path */
	const struct capture_file
		*files; /* each file of the session in it; borrowed until the end */
	size_t n_files;
	bool grants; /* the checksums of `files` are set */
	const Tutti__V1__Grant
		*grant; /* for the only file; borrowed for the call; NULL = none came */
	bool at_once; /* a file that is one chunk may go without a question; no grants are made */
	struct puts *puts;
	uint64_t instance; /* of this agent's Hello */
	int64_t deadline_mono_ns;

	/* The connection of the control link, for a small file; NULL while there is none. */
	struct rpc_channel *(*control_channel)(void *arg);

	/* Called after each chunk that the network layer has accepted, or each second. */
	void (*progress)(void *arg, uint64_t bytes_done);

	/* Called once, unless cancelled: 0 means stored durably, ERR_TIMEOUT that the deadline came first. The
	 * upload is freed when it returns. */
	void (*done)(void *arg, int rc, const struct err *e);
	void *arg;
};

/* Calls nothing back before it returns. The result is valid until `done` or upload_cancel(). */
struct upload *upload_start(const struct link_env *env, const struct upload_request *req);

/* Inside `done`: the file was put by the credit's grant, and the aggregator does not know. */
bool upload_is_untold(const struct upload *u);
void upload_cancel(struct upload *u); /* `done` is not called; NULL is fine */

#endif
