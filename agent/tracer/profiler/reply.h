/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply of tensorflow.ProfilerService/Profile, read off the wire as it comes: its XSpace can be
 * 2 GB, so nothing is unpacked and nothing is copied; the bytes of field 8 go to a sink piece by piece.
 * Pure; any thread.
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

	/* Found so far; final once profiler_reply_end() said 0. */
	bool has_xspace;
	bool empty_trace; /* "no plane has a line with an event" */
	uint64_t xspace_bytes;

	/* The reading's own. */
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

/* The next bytes of the message, however it was cut. ERR_INVALID names the offset; what the sink
 * returns is passed on. */
MUST_CHECK int profiler_reply_feed(struct profiler_reply *r, const void *data, size_t len,
				   struct err *e);

/* No more bytes: ERR_INVALID if the message stops in the middle of a field. */
MUST_CHECK int profiler_reply_end(const struct profiler_reply *r, struct err *e);

#endif
