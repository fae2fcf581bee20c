/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other processes, as those processes see them: opened below /proc/PID/root, without leaving
 * it through links, without waiting on pipes, and only if they are regular. For workers: may block.
 */
#ifndef AGENT_PROC_FOREIGN_FILE_H
#define AGENT_PROC_FOREIGN_FILE_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/* An fd of yours to close, or a negative code. `st` is filled. */
MUST_CHECK int foreign_open(uint32_t pid, const char *path, struct stat *st, struct err *e);

/* The same in the agent's own root. */
MUST_CHECK int foreign_open_here(const char *path, struct stat *st, struct err *e);

#endif
