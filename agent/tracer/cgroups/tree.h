/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroups of a host: a walk over the folders of cgroup v2. Blocks; for a worker. */
#ifndef AGENT_TRACER_CGROUPS_TREE_H
#define AGENT_TRACER_CGROUPS_TREE_H

#include <stddef.h>

#include "agent/tracer/cgroups/label.h"

#define CGROUPS_MAX	   256 /* listed */
#define CGROUP_FOLDERS_MAX 4096 /* looked at */
#define CGROUP_DEPTH_MAX   12

struct cgroup {
	char *path; /* below the root: "system.slice/ssh.service" */
	enum cgroup_kind kind;
	char label[CGROUP_LABEL_BYTES];
};

struct cgroup_list {
	struct cgroup *v; /* in order of path */
	size_t n;
	size_t left_out; /* of those that were found */
};

/* The cgroups below the folder `root_fd`, without the root itself and without what systemd makes for mounts, sockets,
 * and the like. If there are more than CGROUPS_MAX, those of the first kinds. The caller releases the list. */
void cgroup_list_read(struct cgroup_list *out, int root_fd);
void cgroup_list_release(struct cgroup_list *list);

#endif
