/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the texts of /proc and of cgroups. By hand, because the agent parses thousands of them a second. Pure. */
#ifndef AGENT_PROC_NUMBERS_H
#define AGENT_PROC_NUMBERS_H

#include <stddef.h>

/* Parses up to `n` numbers ("123", "0.25"), with blanks between, from the begin of `text`; returns how many it found. */
size_t numbers_parse(const char *text, double *out, size_t n);

/* The rest of the line if it starts with `key`, else NULL. */
const char *text_after(const char *line, const char *key);

#endif
