/* SPDX-License-Identifier: Apache-2.0 */
/* A log line as one JSON object; private to log.c and tests. Pure. */
#ifndef BASE_LOG_JSON_H
#define BASE_LOG_JSON_H

#include <stddef.h>

/*
 * {"time":"2026-11-21T10:03:59.123Z","level":"warn","id":"NET-PEER","fields":{"peer":"10.0.0.7","reason":"..."}}
 *
 * `text` is the line's text, cleaned: KEY=VALUE or KEY="VALUE" with blanks between; a quoted value may itself have quotes.
 * What is no such pair stands in the member "text", up to the end. Returns the length without the NUL; an object that has
 * no room for all pairs lacks the last ones, and is whole.
 */
size_t log_json(char *out, size_t size, const char *stamp, const char *level, const char *id,
		const char *text);

#endif
