/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that profilers before emit_xspace write on their own disk, fetched through the root of the
 * process that wrote them: it may live in a container. The tree there is foreign: links in it are
 * resolved inside that root, nothing but regular files is opened, and nothing is removed from folders
 * that are not the process's own: it may have mounted anybody's there. Blocks; for a worker.
 */
#ifndef AGENT_TRACER_PROFILER_FILE_H
#define AGENT_TRACER_PROFILER_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct profiler_place {
	const char *root; /* "/proc/4711/root"; "/" if nobody knows whose file it is */
	const char *repository; /* the repository_root that the server was told */
	const char *session;
	const uid_t *owner; /* whose folders may be removed there; NULL = anybody's */
};

/* Copies the session's XSpace to the new file `to`. ERR_NOT_FOUND if it is not there (yet), ERR_LIMIT
 * beyond what one response may have, ERR_FULL beyond `room_bytes`: then `*size` says how much there is. */
MUST_CHECK int profiler_file_fetch(const struct profiler_place *place, const char *to,
				   uint64_t room_bytes, uint64_t *size, struct err *e);

/* Removes what the server made below the repository, and the repository. Does its best. */
void profiler_file_remove(const struct profiler_place *place);

#endif
