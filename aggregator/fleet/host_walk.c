/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/host_walk.h"

#include <stdlib.h>

#include "aggregator/fleet/registry.h"
#include "base/mem.h"

#define TURN_HOSTS 100 /* in one turn: a visit may send a message and log it, in 30 us */

static void set_last(struct host_walk *w, const char *name)
{
	free(w->last);
	w->last = name ? xstrdup(name) : NULL;
}

static void on_turn(void *arg)
{
	struct host_walk *w = arg;
	size_t n, i = registry_index_after(w->registry, w->last);
	struct host *const *hosts = registry_hosts(w->registry, &n);
	size_t end = n - i > TURN_HOSTS ? i + TURN_HOSTS : n;

	for (size_t k = i; k < end; k++)
		w->visit(w->arg, hosts[k]);
	set_last(w, end < n ? hosts[end - 1]->name : NULL);
	if (end < n)
		loop_timer_in(w->loop, &w->timer, 0, on_turn, w);
	else if (w->done)
		w->done(w->arg);
}

void host_walk_begin(struct host_walk *w)
{
	host_walk_cancel(w);
	on_turn(w);
}

void host_walk_cancel(struct host_walk *w)
{
	if (!w->loop)
		return; /* it was never begun */
	loop_timer_cancel(w->loop, &w->timer);
	set_last(w, NULL);
}
