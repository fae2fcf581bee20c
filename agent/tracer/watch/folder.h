/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder into which programs write profiles by themselves: jax.profiler.start_trace(FOLDER) makes
 * FOLDER/plugins/profile/RUN/HOST.xplane.pb. What is in it is not trusted: links are not followed, only regular files
 * with one name are read, and a file counts when it has not changed between two looks, is an XSpace, and says when it
 * was recorded. Only files of the last ten minutes are looked at. Blocks; for a worker.
 */
#ifndef AGENT_TRACER_WATCH_FOLDER_H
#define AGENT_TRACER_WATCH_FOLDER_H

#include <limits.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/limits.h"

/* files that were changed longer ago are not looked at */
#define WATCH_YOUNG_NS	(600 * INT64_C(1000000000))
#define WATCH_RUNS_MAX	4096 /* entries of a folder that are looked at */
#define WATCH_FILES_MAX 256 /* young files of all runs */

/* A profile that is complete. */
struct watch_profile {
	const char *folder; /* the watched one; borrowed, as long as it is watched */
	char run[LIMIT_RUN_NAME + 1];
	char file[NAME_MAX + 1];
	int64_t from_real_ns, to_real_ns; /* as it says */
	uint64_t bytes;
};

struct watch_folder;

/* Files that were there before `since_real_ns` are not new. `path` is borrowed. */
struct watch_folder *watch_folder_new(const char *path, int64_t since_real_ns);
void watch_folder_free(struct watch_folder *f); /* NULL is fine */

/* Calls fn for each profile that has become complete; `p` is borrowed for the call. */
typedef void (*watch_fn)(void *arg, const struct watch_profile *p);
void watch_folder_look(struct watch_folder *f, int64_t now_real_ns, watch_fn fn, void *arg);

/* What the last look could not read, with the fix, and its errno; "" and 0: it could read all. A folder that is not there
 * yet is no problem. */
const char *watch_folder_problem(const struct watch_folder *f);
int watch_folder_error(const struct watch_folder *f);

/* Copies it to the new file `to`, and checks the copy: ERR_INVALID if it is another profile by now, or has more than
 * `p->bytes`. */
MUST_CHECK int watch_profile_copy(const struct watch_profile *p, const char *to, struct err *e);

#endif
