/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of all sources, on a worker: what it may still take, and the lines that it found, with their times on the
 * raw clock. A line has the time in its text, or else the one of its runtime or journal, or else that of the reading.
 * A time further behind the reading than READING_BEHIND_NS or ahead of it is not that of the line.
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
#define READING_AHEAD_NS  NS_PER_S /* a reading lasts */
#define READING_BYTES_S	  (8 << 20) /* that are read per second */

struct reading {
	struct clock_pair pair; /* now */
	int64_t mono_ns; /* now */
	bool stepped; /* the wall clock was set since the last one: its times are not used */
	int64_t lines_left, bytes_left;
	struct buf rows; /* of records */
	uint64_t lost; /* lines */
};

/* Begins the next reading; `lines_s` is the number of lines per second. A zeroed one is before the first. */
void reading_begin(struct reading *r, int64_t lines_s);

/* Adds a line; one more than it may take counts as lost. `time` and `stamp` are the source's. */
void reading_add(struct reading *r, const struct log_origin *from, const struct log_line *line,
		 const struct log_time *time, enum log_stamp stamp);

void reading_release(struct reading *r);

#endif
