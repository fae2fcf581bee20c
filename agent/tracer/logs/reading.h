/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of all sources, on a worker: what it may still take, and the lines that it found, with their times on the
 * raw clock. A line has the time in its text, or else the one of its runtime or journal, or else that of the reading. A
 * time more than READING_BEHIND_NS before the begin of the reading, or more than READING_AHEAD_NS after it, is not
 * used.
 */
#ifndef AGENT_TRACER_LOGS_READING_H
#define AGENT_TRACER_LOGS_READING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tracer/logs/origin.h"
#include "agent/tracer/logs/record.h"
#include "base/buf.h"
#include "base/now.h"
#include "logs/log_line.h"

#define READING_BEHIND_NS (60 * NS_PER_S)
#define READING_AHEAD_NS  NS_PER_S /* lines may be stamped while a reading goes on */
#define READING_BYTES_S	  (8 << 20) /* that are read per second */

struct reading {
	struct clock_pair pair; /* now */
	int64_t mono_ns; /* now */
	/* the wall clock was stepped since the last reading: its times are not used */
	bool stepped;
	int64_t lines_left, bytes_left;
	struct buf rows; /* of records */
	uint64_t lost; /* lines */
};

/* Begins the next reading; `lines_s` is the number of lines per second. Zero the struct before the first reading. */
void reading_begin(struct reading *r, int64_t lines_s);

/* Adds a line; one more than it may take counts as lost. `time` and `stamp` are the source's. */
void reading_add(struct reading *r, const struct log_origin *from, const struct log_line *line,
		 const struct log_time *time, enum log_stamp stamp);

void reading_release(struct reading *r);

#endif
