/* SPDX-License-Identifier: Apache-2.0 */
/* Which files `tutti import` is to import, and which of them are a session together. */
#ifndef CLI_IMPORT_PATHS_H
#define CLI_IMPORT_PATHS_H

#include <stddef.h>

#include "base/err.h"

/* The files of one session, sorted by name. */
struct import_group {
	char *name; /* the folder that has them; "" = files that were named one by one */
	char **paths;
	size_t n;
};

struct import_groups {
	struct import_group *items;
	size_t n;
};

/*
 * Files are a session together. Of a folder, each folder in it that has profiles (`plugins/profile/RUN`) is a session:
 * its *.xplane.pb[.gz] or, without any, its *.json[.gz]. ERR_NOT_FOUND if a folder has none; ERR_LIMIT beyond
 * IMPORT_DEPTH_MAX folders or IMPORT_PATHS_MAX files.
 */
#define IMPORT_DEPTH_MAX 8
#define IMPORT_PATHS_MAX 100000
MUST_CHECK int import_find(struct import_groups *out, int n, char **paths, struct err *e);
void import_groups_release(struct import_groups *g);

/* "run/node-1.xplane.pb.gz" -> "node-1", and "node-1~2.xplane.pb" too: letters that no name of a host may have become
 * '-'. The caller frees it. */
char *import_host_of(const char *path);

#endif
