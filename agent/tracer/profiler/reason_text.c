/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/reason_text.h"

#include <string.h>

#include "base/mem.h"
#include "proto/reasons.h"

static const struct reason_text reason_texts[] = {
	{ REASON_WINDOW_CUT, "the agent called it too late: does this host lack CPU time?" },
	{ REASON_PROFILER_OLD, "the framework is too old" },
	{ REASON_PROFILER_BUSY, "another trace runs in that process: end it or wait" },
	{ REASON_DISK_FULL, "its trace does not fit into the spool" },
	{ REASON_TOO_LARGE, "its trace is larger than --profiler-limit: record a shorter window" },
	{ REASON_PROFILER_TIMEOUT, "no answer within the grace: is the process stopped? A large "
				   "profile needs a longer --grace" },
	{ REASON_PROFILER_LOST, "the process has ended, or its recording was ended" },
	{ REASON_PROFILER_UNREACHABLE,
	  "no server listens: does the job call jax.profiler.start_server()?" },
	{ REASON_PROFILER_FAILED, "the process failed to record" },
};

const struct reason_text *reason_text_find(const char *reason)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(reason_texts) - 1 && strcmp(reason_texts[i].reason, reason))
		i++;
	return &reason_texts[i];
}
