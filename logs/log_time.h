/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times as log lines write them. Many are local times without a zone: all zones differ by quarters of an hour, so if it
 * is known roughly when the line was written, only one zone fits. Pure.
 */
#ifndef LOGS_LOG_TIME_H
#define LOGS_LOG_TIME_H

#include <stddef.h>
#include <stdint.h>

enum log_clock {
	LOG_CLOCK_NONE, /* no time is given */
	LOG_CLOCK_UNIX, /* ns is Unix time */
	LOG_CLOCK_LOCAL, /* ns is Unix time, if the zone is UTC */
	LOG_CLOCK_OF_DAY, /* ns since midnight, in an unknown zone */
	LOG_CLOCK_MONO, /* ns of CLOCK_MONOTONIC */
};

struct log_time {
	enum log_clock clock;
	int64_t ns;
	int digits; /* of its fraction of a second */
};

/*
 * Reads the time at the start of `text`; returns how many bytes it has, 0 if there is none:
 *   2026-11-22T12:25:36.123456789Z, also with '/' for '-', ' ' for 'T', ',' for '.', and +01:00 or +0100 for Z
 *   2026-11-22 12:25:36,123, and all the above without a zone: LOG_CLOCK_LOCAL
 * Years 1970 to 2095; digits after the ninth are dropped.
 */
size_t log_time_parse(const char *text, size_t len, struct log_time *out);

/* Reads "12:25:36.123456", as log_time_parse() does: LOG_CLOCK_OF_DAY. */
size_t log_time_parse_of_day(const char *text, size_t len, struct log_time *out);

/* Unix time, not of LOG_CLOCK_NONE or LOG_CLOCK_MONO. Without a zone it is the instant nearest to `near_ns` in any
 * zone; if no zone brings the date near `near_ns`, it is taken as UTC. */
int64_t log_time_unix(const struct log_time *t, int64_t near_ns);

#endif
