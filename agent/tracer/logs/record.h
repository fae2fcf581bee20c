/* SPDX-License-Identifier: Apache-2.0 */
/* A log line as the ring keeps it. Pure. */
#ifndef AGENT_TRACER_LOGS_RECORD_H
#define AGENT_TRACER_LOGS_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "logs/severity.h"

/* What stamped it. */
enum log_stamp { STAMP_TEXT, STAMP_RUNTIME, STAMP_JOURNAL, STAMP_READ };

/* "text", "runtime", "journal", "read". */
const char *stamp_name(enum log_stamp stamp);

struct log_record {
	enum severity severity;
	enum log_stamp stamp;
	const char *kind, *name, *namespace, *pod, *container; /* struct log_origin */
	const char *text;
};

/* The texts that it unpacks are borrowed from `data`, which record_pack() has made. */
void record_pack(struct buf *out, const struct log_record *r);
struct log_record record_unpack(const void *data);

/* Records one after the other, each with its time. */
void record_row_add(struct buf *rows, int64_t raw_ns, const struct log_record *r);
void record_row_each(const struct buf *rows,
		     void (*fn)(void *arg, int64_t raw_ns, const void *data, size_t len),
		     void *arg);

#endif
