/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod is a part of, and as which rank, by the labels that the systems put on their pods. Pure. */
#ifndef AGGREGATOR_PODS_MEMBERSHIP_H
#define AGGREGATOR_PODS_MEMBERSHIP_H

#include <jansson.h>

#define MEMBERSHIP_RANK_BYTES 24

struct membership {
	const char *job, *kind; /* borrowed of the metadata; "" = of nothing that is known */
	char rank[MEMBERSHIP_RANK_BYTES]; /* a number; "" = not known */
};

/*
 * `metadata` of a pod; the first of these that it has:
 *
 *	labels or annotations tutti.dev/job, tutti.dev/rank
 *	JobSet, a training operator's job, LeaderWorkerSet, RayCluster, a job of Volcano, Job, StatefulSet
 *
 * The rank in a JobSet of several jobs is known where each has one pod, or to the first job's pods.
 */
void membership_read(struct membership *out, const json_t *metadata);

#endif
