/* SPDX-License-Identifier: Apache-2.0 */
/* How bad a log line is: the nine severities of Google Cloud's logs, into which those of others are translated. Pure. */
#ifndef LOGS_SEVERITY_H
#define LOGS_SEVERITY_H

#include <stddef.h>

enum severity {
	SEVERITY_DEFAULT, /* none is given */
	SEVERITY_DEBUG,
	SEVERITY_INFO,
	SEVERITY_NOTICE,
	SEVERITY_WARNING,
	SEVERITY_ERROR,
	SEVERITY_CRITICAL,
	SEVERITY_ALERT,
	SEVERITY_EMERGENCY,
	SEVERITIES
};

/* "DEFAULT", "DEBUG", ... */
const char *severity_name(enum severity severity);

/* Of a word in any case: "warn", "WARNING", "err", "fatal", "trace", ...; DEFAULT for any other word. */
enum severity severity_of_word(const char *word, size_t len);

/* Of syslog's priority, 0 (emergency) to 7 (debug); DEFAULT for any other number. */
enum severity severity_of_priority(long long priority);

#endif
