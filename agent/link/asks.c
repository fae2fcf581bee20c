/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/asks.h"

#include <stdlib.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define ASK_LIMIT_NS (10 * NS_PER_S)

struct ask {
	struct asks *asks;
	struct ask *next;
	uint64_t id;
	ask_fn fn;
	void *arg;
	struct loop_timer timer;
};

struct asks {
	struct loop *loop;
	struct ask *head;
	uint64_t last_id;
};

struct asks *asks_new(struct loop *l)
{
	struct asks *a = xcalloc(1, sizeof(*a));

	a->loop = l;
	return a;
}

void asks_free(struct asks *a)
{
	if (!a)
		return;
	asks_fail_all(a, "the agent is stopping");
	free(a);
}

static void end(struct ask *q, bool ok, const char *session, const char *detail)
{
	struct ask **at = &q->asks->head;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	loop_timer_cancel(q->asks->loop, &q->timer);
	q->fn(q->arg, ok, session, detail);
	free(q);
}

static void on_timeout(void *arg)
{
	end(arg, false, "", "the aggregator did not answer in time");
}

uint64_t asks_add(struct asks *a, ask_fn fn, void *arg)
{
	struct ask *q = xcalloc(1, sizeof(*q));

	q->asks = a;
	q->id = ++a->last_id;
	q->fn = fn;
	q->arg = arg;
	q->next = a->head;
	a->head = q;
	loop_timer_in(a->loop, &q->timer, ASK_LIMIT_NS, on_timeout, q);
	return q->id;
}

void asks_answer(struct asks *a, uint64_t id, bool ok, const char *session, const char *detail)
{
	struct ask *q = a->head;

	while (q && q->id != id)
		q = q->next;
	if (q)
		end(q, ok, session, detail);
}

void asks_fail_all(struct asks *a, const char *detail)
{
	while (a->head)
		end(a->head, false, "", detail);
}
