/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to tensorflow.ProfilerService, as bytes. Pure; any thread. */
#ifndef PROTO_PROFILER_REQUEST_H
#define PROTO_PROFILER_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proto/tensorflow/profiler_options.pb-c.h"
#include "proto/tensorflow/profiler_service.pb-c.h"

#define PROFILER_PROFILE   "/tensorflow.ProfilerService/Profile"
#define PROFILER_TERMINATE "/tensorflow.ProfilerService/Terminate"
#define PROFILER_MONITOR   "/tensorflow.ProfilerService/Monitor"

#define PROFILER_START_CONTINUOUS "/tensorflow.ProfilerService/StartContinuousProfiling"
#define PROFILER_STOP_CONTINUOUS  "/tensorflow.ProfilerService/StopContinuousProfiling"
#define PROFILER_GET_SNAPSHOT	  "/tensorflow.ProfilerService/GetSnapshot"

/* The first names of these methods. Servers and clients built in the month before the names changed know
 * only these. */
#define PROFILER_START_CONTINUOUS_OLD "/tensorflow.ProfilerService/ContinuousProfiling"
#define PROFILER_GET_SNAPSHOT_OLD     "/tensorflow.ProfilerService/GetSnapShot"

/* The longest time from a request to its start. Until the start the server sleeps, cannot be woken, and holds
 * the profiler lock of its process. */
#define PROFILER_MAX_SLEEP_NS INT64_C(10000000000)

/* Recording starts this much before the window and ends this much after it; the agent trims. */
#define PROFILER_LEAD_NS  INT64_C(100000000)
#define PROFILER_GUARD_NS INT64_C(20000000)

/* A start further in the future comes from a client with a wrong clock. */
#define PROFILER_MAX_AHEAD_NS INT64_C(60000000000)

struct profiler_request {
	const void *options; /* serialized tensorflow.ProfileOptions; empty = the defaults */
	size_t options_len;
	int64_t t0_real_ns, t1_real_ns; /* the window, on the target's CLOCK_REALTIME */
	int64_t now_real_ns;
	/* must be a new name: a server refuses one that an earlier Terminate has named */
	const char *session;
	const char *repository; /* where a server without emit_xspace writes its file */
	const char *host;
};

/* Unpack what clients send; the caller frees the message. ERR_LIMIT, ERR_INVALID: larger than any stock client's,
 * malformed, or the session's name is longer than LIMIT_CLIENT_SESSION or has control characters. */
MUST_CHECK int profile_request_unpack(Tensorflow__ProfileRequest **out, const void *data,
				      size_t len, struct err *e);
MUST_CHECK int terminate_request_unpack(Tensorflow__TerminateRequest **out, const void *data,
					size_t len, struct err *e);
MUST_CHECK int snapshot_request_unpack(Tensorflow__GetSnapshotRequest **out, const void *data,
				       size_t len, struct err *e);
MUST_CHECK int profile_options_unpack(Tensorflow__ProfileOptions **out, const void *data,
				      size_t len, struct err *e);

/* The duration in the client's options, else in its request, else 0. The start in its options, if it is in
 * the near future of now_ns, else 0. */
uint64_t profile_request_duration_ms(const Tensorflow__ProfileRequest *r);
int64_t profile_request_start_ns(const Tensorflow__ProfileRequest *r, int64_t now_ns);

/* Appends a ProfileRequest. ERR_INVALID for malformed options. The window must not have ended. */
MUST_CHECK int profiler_request_pack(struct buf *out, const struct profiler_request *r,
				     struct err *e);

/* Appends the ProfileRequest of StartContinuousProfiling: the defaults of a stock server. */
void profiler_continuous_pack(struct buf *out, const char *host);

void profiler_terminate_pack(struct buf *out, const char *session);

/* "<prefix>_<16 hex digits>" from the kernel's generator. */
#define PROFILER_SESSION_BYTES 128
void profiler_session_name(const char *prefix, char out[PROFILER_SESSION_BYTES]);

#endif
