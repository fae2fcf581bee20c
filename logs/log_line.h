/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a line of a log says of itself. Lines are foreign bytes of any kind: the text that comes out is UTF-8 without
 * control characters or colours, and bounded. Pure.
 *
 * Severity and time are found in
 *   - glog, klog and Abseil: "I1122 12:25:36.123456 4711 train.cc:12] text";
 *   - a time at the start, in brackets or not (log_time.h), with at least milliseconds;
 *   - a severity's word within the first LOG_HEAD_BYTES: in capitals (" - ERROR - ", "WARNING:root:"), in brackets
 *     ("[error]"), after "level=" or "severity=", or before a colon at the start ("error: text");
 *   - "Traceback (most recent call last):", which is an error;
 *   - one JSON object: "severity" or "level"; "message" or "msg"; "timestamp" or "time" (logs/log_json.h).
 */
#ifndef LOGS_LOG_LINE_H
#define LOGS_LOG_LINE_H

#include <stddef.h>

#include "logs/log_time.h"
#include "logs/severity.h"

#define LOG_LINE_BYTES (32 << 10) /* of a line that is read; what is beyond is dropped */
#define LOG_TEXT_BYTES 1024 /* of the text that is kept, with its NUL */
#define LOG_HEAD_BYTES 96
/* digits of the second that a time in a line must have: a coarser one is less exact than the time of reading */
#define LOG_DIGITS_MIN 3

struct log_line {
	enum severity severity;
	struct log_time time;
	char text[LOG_TEXT_BYTES];
};

/* At most LOG_LINE_BYTES of `line` are read. */
void log_line_read(const char *line, size_t len, struct log_line *out);

/* The text alone: cleaned, and cut to LOG_TEXT_BYTES. */
void log_text_clean(const char *text, size_t len, char out[LOG_TEXT_BYTES]);

#endif
