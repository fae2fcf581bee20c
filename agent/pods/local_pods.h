/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of this host, as the aggregator tells them, and which process is of which. A worker reads the cgroups of new
 * processes every two seconds, so that processes that end before a file is made are known, too. Outside of Kubernetes
 * there are no pods, and nothing is read. Loop thread.
 */
#ifndef AGENT_PODS_LOCAL_PODS_H
#define AGENT_PODS_LOCAL_PODS_H

#include <stdint.h>

#include "proto/tutti/v1/control.pb-c.h"

struct local_pods;
struct loop;
struct pod_view;

struct local_pods_conf {
	struct loop *loop;
	const char *proc; /* "/proc"; in tests a tree that looks like it */
};

struct local_pods *local_pods_new(const struct local_pods_conf *conf);
void local_pods_free(struct local_pods *lp); /* NULL is fine */

/* Replaces the pods. The message has passed control_unpack_from_aggregator(). */
void local_pods_take(struct local_pods *lp, Tutti__V1__Pods *m_taken);

/* What is known now: a reference, which the caller releases with pod_view_release(). NULL, also for `lp` NULL, where no
 * pods are known. */
struct pod_view *local_pods_view(const struct local_pods *lp);

#endif
