/* SPDX-License-Identifier: Apache-2.0 */
/* A ProfileResponse around an XSpace file, whose bytes are mapped, not read. Any thread. */
#ifndef AGENT_LOCAL_PROFILER_ANSWER_H
#define AGENT_LOCAL_PROFILER_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/rpc.h"

struct profiler_answer {
	const char *path; /* the file; may be unlinked once the parts are made */
	uint64_t file_len;
	bool emit_xspace; /* in `xspace`; else in a tool_data "xplane.pb", which clients save */
	bool empty_trace; /* stock clients then drop the rest and try again */
};

/* Fills `parts` for rpc_send_parts(), which releases them. ERR_LIMIT for a file larger than a response. */
#define PROFILER_ANSWER_PARTS 2
MUST_CHECK int profiler_answer_parts(const struct profiler_answer *a,
				     struct rpc_part parts[PROFILER_ANSWER_PARTS], struct err *e);

#endif
