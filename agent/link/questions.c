/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/questions.h"

#include <stdlib.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define ANSWER_LIMIT_NS (10 * NS_PER_S)

struct question {
	struct questions *questions;
	struct question *next;
	uint64_t id;
	answer_fn fn;
	void *arg;
	struct loop_timer timer;
};

struct questions {
	struct loop *loop;
	struct question *head;
	uint64_t last_id;
};

struct questions *questions_new(struct loop *l)
{
	struct questions *qs = xcalloc(1, sizeof(*qs));

	qs->loop = l;
	return qs;
}

void questions_free(struct questions *qs)
{
	if (!qs)
		return;
	questions_fail_all(qs, "the agent is stopping");
	free(qs);
}

static void question_end(struct question *q, bool ok, const char *session, const char *detail)
{
	struct question **at = &q->questions->head;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	loop_timer_cancel(q->questions->loop, &q->timer);
	q->fn(q->arg, ok, session, detail);
	free(q);
}

static void on_timeout(void *arg)
{
	question_end(arg, false, "", "the aggregator did not answer in time");
}

uint64_t questions_add(struct questions *qs, answer_fn fn, void *arg)
{
	struct question *q = xcalloc(1, sizeof(*q));

	q->questions = qs;
	q->id = ++qs->last_id;
	q->fn = fn;
	q->arg = arg;
	q->next = qs->head;
	qs->head = q;
	loop_timer_in(qs->loop, &q->timer, ANSWER_LIMIT_NS, on_timeout, q);
	return q->id;
}

void questions_answer(struct questions *qs, uint64_t id, bool ok, const char *session,
		      const char *detail)
{
	struct question *q = qs->head;

	while (q && q->id != id)
		q = q->next;
	if (q)
		question_end(q, ok, session, detail);
}

void questions_fail_all(struct questions *qs, const char *detail)
{
	while (qs->head)
		question_end(qs->head, false, "", detail);
}
