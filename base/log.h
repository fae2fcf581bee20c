/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line per event, on stderr, with a stable id to match on:
 *
 *   2026-11-21T10:03:59.123Z W NET-PEER peer=10.0.0.7 reason="message of 71 MB, limit 64 MB"
 *
 * Tests and operators match on the id and the keys, never on sentences. Foreign text is printed with
 * "%s" only: control characters are replaced before the line is written. Any thread.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above this level are dropped. The default is LOG_INFO. Set once, at the start. */
void log_set_level(enum log_level level);

/* "error", "warn", "info", "debug" to a level; ERR_INVALID for anything else. */
MUST_CHECK int log_level_parse(const char *text, enum log_level *out, struct err *e);

/* The same line as a JSON object instead: {"time", "level", "id", "fields": {KEY: VALUE}}. Set once, at the start. */
void log_set_json(bool json);

/* "text" or "json"; ERR_INVALID for anything else. */
MUST_CHECK int log_format_parse(const char *text, bool *json, struct err *e);

void log_line(enum log_level level, const char *id, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define log_error(id, ...) log_line(LOG_ERROR, id, __VA_ARGS__)
#define log_warn(id, ...)  log_line(LOG_WARN, id, __VA_ARGS__)
#define log_info(id, ...)  log_line(LOG_INFO, id, __VA_ARGS__)
#define log_debug(id, ...) log_line(LOG_DEBUG, id, __VA_ARGS__)

#endif
