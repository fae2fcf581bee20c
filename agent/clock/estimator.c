/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts samples into histories: one per period without a break.
 *
 * The only assumption about the path is that no packet arrives before it was sent. Those about the clock are
 * in agent/clock/bend.h, and for models of now in agent/clock/history.c: docs/time.md.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/clock/estimator_impl.h"
#include "base/mem.h"
#include "base/now.h"

#define TIME_MAX_NS INT64_C(4000000000000000000)
/* how long samples are kept: the longest capture, and some time around it */
#define KEEP_NS	    (3900 * NS_PER_S)
#define EXPIRE_EACH 1024 /* probes */

struct clock_estimator *clock_estimator_new(void)
{
	return xcalloc(1, sizeof(struct clock_estimator));
}

static void forget_histories(struct clock_estimator *est)
{
	for (size_t i = 0; i < est->n; i++)
		clock_history_free(est->histories[i]);
	est->n = est->n_doubts = 0;
	est->has_forgotten = false;
	est->probes = est->bad_samples = 0;
}

void clock_estimator_free(struct clock_estimator *est)
{
	if (est)
		forget_histories(est);
	free(est);
}

/* ---- histories ---- */

static void drop_history(struct clock_estimator *est, size_t i)
{
	clock_history_free(est->histories[i]);
	est->n--;
	memmove(&est->histories[i], &est->histories[i + 1],
		(est->n - i) * sizeof(est->histories[0]));
}

static struct clock_history *push_history(struct clock_estimator *est, enum clock_break cause,
					  int64_t at_ns, int64_t sure_ns)
{
	if (est->n == ESTIMATOR_HISTORIES)
		drop_history(est, 0);
	return est->histories[est->n++] = clock_history_new(cause, at_ns, sure_ns);
}

void clock_estimator_reset(struct clock_estimator *est)
{
	forget_histories(est);
	if (est->announced)
		push_history(est, est->announced, est->announced_ns, INT64_MIN);
}

/* Drops the newest history, which was not confirmed. */
static void drop_unconfirmed(struct clock_estimator *est)
{
	const struct clock_history *h = newest_history(est);
	struct clock_claim new = clock_history_claim(h);
	size_t i;

	if (est->n_doubts == ESTIMATOR_DOUBTS) {
		est->forgot_doubt_ns = est->doubts[0].when.to_ns;
		est->has_forgotten = true;
		est->n_doubts--;
		memmove(est->doubts, est->doubts + 1, est->n_doubts * sizeof(new));
	}
	for (i = est->n_doubts++; i && est->doubts[i - 1].when.from_ns > new.when.from_ns; i--)
		est->doubts[i] = est->doubts[i - 1];
	est->doubts[i] = new;
	est->bad_samples += h->probes;
	drop_history(est, est->n - 1);
}

void clock_estimator_break(struct clock_estimator *est, int64_t since_ns, int64_t at_ns,
			   enum clock_break cause)
{
	struct clock_history *h = newest_history(est);

	if (h && !is_confirmed(h)) {
		drop_unconfirmed(est);
		h = newest_history(est);
	}
	if (h && (!h->probes || !clock_history_keep_until(h, since_ns)))
		drop_history(est, est->n - 1);
	push_history(est, cause, at_ns, INT64_MIN);
	est->announced = cause;
	est->announced_ns = at_ns;
}

/* ---- samples ---- */

static bool in_range(int64_t t)
{
	return t > -TIME_MAX_NS && t < TIME_MAX_NS;
}

static bool is_possible(const struct clock_sample *s)
{
	if (!s->no_request && (!in_range(s->t1_ns) || !in_range(s->t2_ns)))
		return false;
	if (!s->no_reply && (!in_range(s->t3_ns) || !in_range(s->t4_ns)))
		return false;
	if (s->no_request || s->no_reply)
		return !s->no_request || !s->no_reply;
	return s->t1_ns <= s->t4_ns && s->t2_ns <= s->t3_ns &&
	       s->t4_ns - s->t1_ns >= s->t3_ns - s->t2_ns;
}

/* The history that a sample belongs to; one that contradicts the newest history begins another.
 * NULL for a sample from before an announced break. */
static struct clock_history *history_for(struct clock_estimator *est, const struct clock_sample *s)
{
	int64_t at_ns = s->no_request ? s->t4_ns : s->t1_ns;
	struct clock_history *h = newest_history(est);
	int64_t jump_ns;
	bool rate;

	if (!h)
		return push_history(est, CLOCK_BREAK_NONE, at_ns, INT64_MIN);
	if (at_ns < h->begin_ns && h->cause != CLOCK_BREAK_NONE)
		/* the probe was sent before the break and its reply arrived after it */
		return NULL;
	jump_ns = clock_history_contradiction_ns(h, s, &rate);
	if (!jump_ns)
		return h;
	if (!is_confirmed(h)) {
		drop_unconfirmed(est);
		return history_for(est, s);
	}
	h = push_history(est, rate ? CLOCK_BREAK_RATE : CLOCK_BREAK_STEP, at_ns,
			 jump_ns < 0 ? s->t4_ns : INT64_MIN);
	h->jump_ns = jump_ns;
	return h;
}

static void confirm_break(struct clock_estimator *est, const struct clock_history *h)
{
	est->steps_found++;
	if (est->n > 1)
		clock_history_cut(est->histories[est->n - 2], h);
}

bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s)
{
	struct clock_history *h;

	if (!is_possible(s)) {
		est->bad_samples++;
		return false;
	}
	h = history_for(est, s);
	if (!h)
		return true;
	clock_history_add(h, s);
	if (is_begun_by_sample(h) && h->probes == ESTIMATOR_CONFIRM && !s->is_update)
		confirm_break(est, h);
	est->probes += !s->is_update;
	if (h->probes % EXPIRE_EACH == 0)
		clock_history_expire(h, h->last_ns - KEEP_NS);
	return true;
}
