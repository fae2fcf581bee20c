/* SPDX-License-Identifier: Apache-2.0 */
/* What the reasons of a profiler's failure mean for the user: cause and fix. */
#ifndef AGENT_TRACER_PROFILER_REASON_TEXT_H
#define AGENT_TRACER_PROFILER_REASON_TEXT_H

struct reason_text {
	const char *reason; /* of proto/reasons.h */
	const char *text; /* for the detail of a run */
};

/* The row of a reason; an unknown reason has the last row, "profiler-failed". All rows are in one array, the
 * mildest first: of two reasons, the one whose row is later is worse. */
const struct reason_text *reason_text_find(const char *reason);

#endif
