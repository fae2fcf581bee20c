/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cgroup is, by its path below the root, and how it is called: pods by their uid, containers by the first 12
 * digits of their id, as kubectl and crictl show them; all others by the end of their path. Knows the folders of
 * kubelet (drivers systemd and cgroupfs), containerd, CRI-O, Docker and Podman. Pure.
 */
#ifndef AGENT_TRACER_CGROUPS_LABEL_H
#define AGENT_TRACER_CGROUPS_LABEL_H

/* The most interesting first: where there are too many cgroups, the last kinds are left out. */
enum cgroup_kind { CGROUP_CONTAINER, CGROUP_POD, CGROUP_OTHER, CGROUP_SLICE };

/* With the NUL; a multiple of 8. */
#define CGROUP_LABEL_BYTES 64

/*
 * The kind of the cgroup "kubepods.slice/.../cri-containerd-ID.scope", and its label:
 *
 *	"pod UID/0123456789ab", "pod UID", "container 0123456789ab", "system.slice/ssh.service", "...rest/of/a/path"
 */
enum cgroup_kind cgroup_label(const char *path, char label[CGROUP_LABEL_BYTES]);

#endif
