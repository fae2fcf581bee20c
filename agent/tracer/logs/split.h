/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the bytes of a log into lines, at line feeds and at carriage returns (progress bars write those). Of a line longer
 * than LOG_LINE_BYTES the rest is dropped; empty lines are left out. Pure.
 */
#ifndef AGENT_TRACER_LOGS_SPLIT_H
#define AGENT_TRACER_LOGS_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct split {
	struct buf begun; /* the line without an end so far */
	bool skips; /* what comes up to the next end belongs to no line */
};

typedef void (*split_fn)(void *arg, const char *line, size_t len);

void split_add(struct split *s, const void *data, size_t len, split_fn fn, void *arg);

/* Passes the unfinished line, if there is one, to fn as if it were complete. */
void split_flush(struct split *s, split_fn fn, void *arg);

void split_release(struct split *s);

#endif
