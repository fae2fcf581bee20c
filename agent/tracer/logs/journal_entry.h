/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of the journal, as `journalctl --output=json` prints it. Foreign bytes. Pure. */
#ifndef AGENT_TRACER_LOGS_JOURNAL_ENTRY_H
#define AGENT_TRACER_LOGS_JOURNAL_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/tracer/logs/origin.h"
#include "logs/log_line.h"

/* The fields that are read, for --output-fields=. */
#define JOURNAL_FIELDS \
	"MESSAGE,PRIORITY,_SYSTEMD_UNIT,SYSLOG_IDENTIFIER,_COMM,_TRANSPORT,_SOURCE_REALTIME_" \
	"TIMESTAMP"

struct journal_entry {
	struct log_origin origin; /* its name is the unit, or else the program, or "kernel" */
	struct log_line line;
	struct log_time time; /* when it was logged: LOG_CLOCK_MONO */
};

/* False: it is no entry. The severity is that of the entry's priority; without one, of its text. */
bool journal_entry_read(const char *text, size_t len, struct journal_entry *out);

#endif
