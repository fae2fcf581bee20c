/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines that are JSON objects: of loggers that write them, and of a cloud's export. Pure. */
#ifndef LOGS_LOG_JSON_H
#define LOGS_LOG_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "logs/log_line.h"

/* Reads a line that is one JSON object with a text, and sets all of `out`; false: it is none, nothing is set. */
bool log_json_read_line(const char *line, size_t len, struct log_line *out);

/* A member of an object that is text; NULL if it is absent or of another type. Borrowed. */
const char *log_json_text(const json_t *object, const char *name);

/* The parts of an object, by the names that loggers use. The message is borrowed; NULL and LOG_CLOCK_NONE if it has none.
 * Numbers as times are seconds, milliseconds, microseconds or nanoseconds of Unix time, by their size. */
enum severity log_json_severity(const json_t *object);
struct log_time log_json_time(const json_t *object);
const char *log_json_message(const json_t *object);

#endif
