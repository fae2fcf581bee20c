/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the reply of tensorflow.ProfilerService/Profile piece by piece. Its XSpace can have 2 GB, so it is
 * neither unpacked nor copied: the bytes of field 8 go to a sink. Pure; any thread.
 */
#ifndef AGENT_TRACER_PROFILER_REPLY_H
#define AGENT_TRACER_PROFILER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct profiler_reply {
	/* Given. Called for each piece of the XSpace, in order; a negative return ends the reading. */
	int (*xspace)(void *arg, const void *data, size_t len, struct err *e);
	void *arg;

	/* Found so far; final once profiler_reply_end() returned 0. */
	bool has_xspace;
	bool empty_trace; /* "no plane has a line with an event" */
	uint64_t xspace_bytes;

	/* Internal. */
	int state;
	uint64_t value; /* of the varint under way */
	unsigned int shift;
	uint32_t field;
	uint64_t left; /* of the payload under way */
	uint64_t offset;
};

struct profiler_reply profiler_reply_of(int (*xspace)(void *arg, const void *data, size_t len,
						      struct err *e),
					void *arg);

/* Reads the next bytes of the message; a piece may end anywhere. ERR_INVALID names the offset; an error of
 * the sink is returned. */
MUST_CHECK int profiler_reply_feed(struct profiler_reply *r, const void *data, size_t len,
				   struct err *e);

/* No more bytes: ERR_INVALID if the message stops in the middle of a field. */
MUST_CHECK int profiler_reply_end(const struct profiler_reply *r, struct err *e);

#endif
