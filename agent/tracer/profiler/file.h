/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of older profilers: those without emit_xspace write their XSpace to their own disk. It is read through
 * the root of the process, which may be in a container. That tree is not trusted: links are resolved inside
 * the root, only regular files are opened, and files are removed only from folders that the process owns,
 * because others may be mounted there. Blocks; for a worker.
 */
#ifndef AGENT_TRACER_PROFILER_FILE_H
#define AGENT_TRACER_PROFILER_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct profiler_place {
	const char *root; /* "/proc/4711/root"; "/" if the process is unknown */
	const char *repository; /* the repository_root of the request */
	const char *session;
	const uid_t *owner; /* only folders of this user are removed; NULL = of any user */
};

/* Copies the session's XSpace to the new file `to`, and sets `*size` to its size. ERR_NOT_FOUND if it is not
 * there (yet), ERR_LIMIT if it is larger than a response may be, ERR_FULL if it is larger than `limit_bytes`. */
MUST_CHECK int profiler_file_fetch(const struct profiler_place *place, const char *to,
				   uint64_t limit_bytes, uint64_t *size, struct err *e);

/* Removes the server's files and folders below the repository, and the repository. Errors are ignored. */
void profiler_file_remove(const struct profiler_place *place);

#endif
