/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells each agent of the pods on its node: after Hello, and a moment after they change. So the agent can say in its
 * files which process was of which pod, and knows which pods opted out. Private to pods/. Loop thread.
 */
#ifndef AGGREGATOR_PODS_TELL_H
#define AGGREGATOR_PODS_TELL_H

#include "aggregator/fleet/host_walk.h"
#include "aggregator/pods/pod_table.h"
#include "base/loop.h"

struct registry;

/* Embedded in its owner; zeroed means idle. */
struct pod_teller {
	struct loop *loop;
	struct registry *registry;
	const struct pod_table *table;
	struct loop_timer timer;
	struct host_walk walk;
};

/* The members above `timer` are set. Pods or hosts may have changed: agents are told soon. */
void pod_teller_wake(struct pod_teller *t);
void pod_teller_stop(struct pod_teller *t);

#endif
