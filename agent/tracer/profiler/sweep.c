/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/sweep.h"

#include <stdbool.h>
#include <stdlib.h>

#include "agent/tracer/profiler/lane.h"
#include "agent/tracer/profiler/store.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

/* time of the first look; each further one comes after four times as long: 0.5, 2, 8, 32 s */
#define FIRST_LOOK_NS (500 * NS_PER_MS)
#define LOOKS	      4

struct item {
	struct sweep *owner; /* loop's thread only; NULL when it is gone */
	struct item *next;
	struct loop_timer timer;
	int64_t pause_ns;
	int looks;
	bool busy; /* a worker has it */
	int64_t pid;
	char *repository, *session;
};

struct sweep {
	struct loop *loop;
	struct lane *lane;
	struct item *items;
};

static void item_free(struct item *i)
{
	free(i->repository);
	free(i->session);
	free(i);
}

static void remove_item(struct item *i)
{
	struct item **at = &i->owner->items;

	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	item_free(i);
}

/* On a worker, or at the end. */
static void look(void *arg)
{
	const struct item *i = arg;

	profiler_store_remove(i->pid, i->repository, i->session);
}

static void on_due(void *arg);

static void looked(void *arg)
{
	struct item *i = arg;

	i->busy = false;
	i->pause_ns *= 4;
	if (!i->owner)
		item_free(i);
	else if (++i->looks == LOOKS)
		remove_item(i);
	else
		loop_timer_in(i->owner->loop, &i->timer, i->pause_ns, on_due, i);
}

static void on_due(void *arg)
{
	struct item *i = arg;

	i->busy = true;
	lane_work(i->owner->lane, look, looked, i);
}

void sweep_add(struct sweep *s, int64_t pid, const char *repository, const char *session)
{
	struct item *i = xcalloc(1, sizeof(*i));

	*i = (struct item){ .owner = s,
			    .next = s->items,
			    .pause_ns = FIRST_LOOK_NS,
			    .pid = pid,
			    .repository = xstrdup(repository),
			    .session = xstrdup(session) };
	s->items = i;
	loop_timer_in(s->loop, &i->timer, i->pause_ns, on_due, i);
}

struct sweep *sweep_new(struct loop *loop, struct lane *lane)
{
	struct sweep *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->lane = lane;
	return s;
}

void sweep_free(struct sweep *s)
{
	struct item *next;

	for (struct item *i = s ? s->items : NULL; i; i = next) {
		next = i->next;
		loop_timer_cancel(s->loop, &i->timer);
		i->owner = NULL;
		if (i->busy)
			continue; /* looked() frees it */
		if (!lane_is_stuck(s->lane))
			look(i);
		item_free(i);
	}
	free(s);
}
