/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pod and the container of a process, by the path of its cgroup. Knows the folders of kubelet (drivers systemd and
 * cgroupfs), containerd, CRI-O, Docker and Podman, in cgroup v1 and v2. Pure, except where a function says otherwise.
 */
#ifndef AGENT_PROC_CGROUP_PATH_H
#define AGENT_PROC_CGROUP_PATH_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_UID_BYTES       37 /* of a pod: "3f2c1a2b-..." and the NUL; 32 digits for a static pod */
#define CGROUP_CONTAINER_BYTES 65 /* 64 hexadecimal digits */

struct cgroup_owner {
	char pod[CGROUP_UID_BYTES]; /* "" = none */
	char container[CGROUP_CONTAINER_BYTES]; /* the outermost of the path; "" = none */

	bool is_there; /* of cgroup_of_process(): the process could be read */

	/* What the last folder is. */
	bool is_pod;
	const char *leaf; /* the container's id, in `path` and without a NUL; NULL = no container */
};

/* Reads "kubepods.slice/.../cri-containerd-ID.scope". `out` borrows the path. */
void cgroup_path_read(struct cgroup_owner *out, const char *path);

/* Reads /proc/PID/cgroup's text: the first line that names a pod counts, else the first that names a container. `leaf`
 * is not set. False if no line names either. */
bool cgroup_text_read(struct cgroup_owner *out, const char *text);

/* Reads that file of a process, below `proc` ("/proc"). False also if the process has ended. */
bool cgroup_of_process(struct cgroup_owner *out, const char *proc, int64_t pid);

#endif
