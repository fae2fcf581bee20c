/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits all hosts of the fleet, some of them in each turn of the loop. A host that is added meanwhile may be left
 * out. Embedded in its owner, who cancels it before it frees; zeroed means idle. Loop thread.
 */
#ifndef AGGREGATOR_FLEET_HOST_WALK_H
#define AGGREGATOR_FLEET_HOST_WALK_H

#include "base/loop.h"

struct host;
struct registry;

struct host_walk {
	struct loop *loop;
	struct registry *registry;
	void (*visit)(void *arg, struct host *h); /* may not remove hosts */
	void (*done)(void *arg); /* after the last host; may free the walk; NULL = nothing */
	void *arg;
	struct loop_timer timer;
	char *last; /* name of the host that was visited last; NULL = none yet */
};

/* The members above `timer` are set. If there are few hosts, all are visited before this returns. A walk that is
 * under way begins again. */
void host_walk_begin(struct host_walk *w);
void host_walk_cancel(struct host_walk *w);

#endif
