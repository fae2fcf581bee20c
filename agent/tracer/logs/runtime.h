/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What container runtimes put around the lines that a container writes. Foreign bytes: a line that is none of these is
 * taken as it is.
 *   - CRI:    2026-11-22T12:25:36.123456789Z stdout F text      (P: the next line goes on)
 *   - Docker: {"log":"text\n","stream":"stdout","time":"..."}   (without \n: the next line goes on)
 * Pure.
 */
#ifndef AGENT_TRACER_LOGS_RUNTIME_H
#define AGENT_TRACER_LOGS_RUNTIME_H

#include <stddef.h>

#include "base/buf.h"
#include "logs/log_line.h"

/* The lines of one file. */
struct runtime {
	struct buf joined; /* the parts of an unfinished line so far, at most LOG_LINE_BYTES */
	struct log_time time; /* of the first part */
};

/* `time` is the runtime's, or LOG_CLOCK_NONE. */
typedef void (*runtime_fn)(void *arg, const struct log_line *line, const struct log_time *time);

/* Takes the next line of the file and calls fn once, or not at all if the line goes on. */
void runtime_add(struct runtime *r, const char *line, size_t len, runtime_fn fn, void *arg);

void runtime_release(struct runtime *r);

#endif
