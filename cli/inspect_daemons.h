/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An aggregator and an agent of one command's own: they listen on loopback and in a temporary folder that only this user
 * can enter, store into a folder, and end with this process.
 */
#ifndef CLI_INSPECT_DAEMONS_H
#define CLI_INSPECT_DAEMONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/inspect_folder.h"

struct daemons {
	char *programs; /* the folder of this program: the daemons and libtutti_nvtx.so are there, too */
	struct inspect_folder folder;
	char *server; /* URL of the aggregator */
	char *local_socket; /* URL */
	char *annotations_socket; /* path */
	pid_t aggregator, agent; /* 0 = it does not run */
};

/*
 * Starts both; sessions go to `store`, a folder that is made where it is missing. The caller calls daemons_end(), also on
 * failure: the error names the log then.
 */
MUST_CHECK int daemons_start(struct daemons *d, const char *store, struct err *e);

/* A child of this process was waited for: forgets it if it was one of them. Returns its name, or NULL. */
const char *daemons_forget(struct daemons *d, pid_t pid);

/* Ends them. The temporary folder is removed, unless `keep_logs`. */
void daemons_end(struct daemons *d, bool keep_logs);

#endif
