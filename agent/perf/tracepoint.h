/* SPDX-License-Identifier: Apache-2.0 */
/* A tracepoint of the kernel, as tracefs describes it: its number, and where a field lies in its records. */
#ifndef AGENT_PERF_TRACEPOINT_H
#define AGENT_PERF_TRACEPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tracepoint {
	uint32_t id; /* until the next boot */
	size_t at; /* offset of the field, which has four bytes */
};

/* Reads the description of `event` ("sched/sched_wakeup"). ERR_DENIED: only root or CAP_DAC_READ_SEARCH reads tracefs;
 * ERR_UNSUPPORTED: it is not mounted, or has no such event. errno is kept. */
MUST_CHECK int tracepoint_load(struct tracepoint *out, const char *event, const char *field,
			       struct err *e);

/* Of the text of an event's `format`. False if it has no number or no such field. Pure. */
bool tracepoint_parse(struct tracepoint *out, const char *format, const char *field);

#endif
