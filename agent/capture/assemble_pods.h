/* SPDX-License-Identifier: Apache-2.0 */
/* What a host's files say of its pods, and of which pod or which job each process is. Any thread. */
#ifndef AGENT_CAPTURE_ASSEMBLE_PODS_H
#define AGENT_CAPTURE_ASSEMBLE_PODS_H

#include "agent/pods/pod_view.h"
#include "xspace/xspace.h"

/* What was found of processes. /proc is asked once of each: it may end before the file is whole. Zeroed to begin with. */
struct known_process;
struct known_processes {
	struct known_process **v;
	size_t n;
};
void known_processes_release(struct known_processes *known);

/* The stats of a plane of this process: pod, container, namespace, job, rank, node of a pod; job, rank, node, nodes of a
 * task of Slurm that is in none; without those that are not known. Texts are those of `pods` and `known`. */
size_t assemble_process(struct known_processes *known, const struct pod_view *pods, int64_t pid,
			struct xs_known out[XS_KNOWN_MOST]);

/* The stats `node` and `pods` of the plane Task Environment. */
void assemble_pods(const struct pod_view *pods, struct xs_builder *b);

#endif
