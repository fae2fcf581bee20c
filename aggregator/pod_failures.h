/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots at failures: a pod with the annotation tutti.dev/snapshot-on-failure has failed, or a container of it began
 * again. What its host recorded before that becomes a session. Failures of half a second share one, and a host gets no
 * second one within a minute. Loop thread.
 */
#ifndef AGGREGATOR_POD_FAILURES_H
#define AGGREGATOR_POD_FAILURES_H

struct captures;
struct loop;
struct pod_failures;
struct pods;

/* Watches the pods, which end first: pods_stop() before pod_failures_free(). */
struct pod_failures *pod_failures_new(struct loop *loop, struct pods *pods,
				      struct captures *captures);
void pod_failures_free(struct pod_failures *f); /* NULL is fine */

#endif
