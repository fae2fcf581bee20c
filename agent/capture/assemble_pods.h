/* SPDX-License-Identifier: Apache-2.0 */
/* What a host's files say of its pods. Any thread. */
#ifndef AGENT_CAPTURE_ASSEMBLE_PODS_H
#define AGENT_CAPTURE_ASSEMBLE_PODS_H

#include "agent/pods/pod_view.h"
#include "xspace/xspace.h"

/* The stats of a plane of this process: pod, container, namespace, job, rank, node, without those that are not known.
 * Texts are the view's. */
size_t assemble_process(const struct pod_view *pods, int64_t pid,
			struct xs_known out[XS_KNOWN_MOST]);

/* The stats `node` and `pods` of the plane Task Environment. */
void assemble_pods(const struct pod_view *pods, struct xs_builder *b);

#endif
