/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First version of the estimator: the best probe of each second is kept; the offset comes from the
 * one of them that bounds it most tightly now, the rate from the two that bound it most tightly.
 *
 * Nothing is assumed about the path but that no packet arrives before it was sent. So the request
 * says offset >= t1 - t2, the reply says offset <= t4 - t3, and the truth lies between the two,
 * however lopsided the path. Between probes the offset moves by at most DRIFT_MAX, or, when two
 * probes far enough apart have pinned the rate, by that rate give or take its own bound and WANDER.
 */
#include "agent/clock.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"

#define SLOTS	     64
#define SLOT_NS	     NS_PER_S
#define RATE_BASE_NS (2 * NS_PER_S) /* least distance of two probes that make a rate */
#define TIME_MAX_NS  INT64_C(4000000000000000000)

/* Crystals keep within 100 ppm; the rest is for dividing by a clock that is itself that far off. */
#define DRIFT_MAX 100.1e-6
#define WANDER	  2e-6 /* how much a crystal's rate changes with temperature in a history */
#define STEP_RATE 1e-3 /* no crystal drifts like this: the clock was stopped, or moved */

/* What one probe says: at host time x the offset is center give or take half. */
struct slot {
	int64_t start_ns; /* x of the second's first probe */
	int64_t x_ns, center_ns, half_ns, rtt_ns;
};

struct clock_estimator {
	struct slot slots[SLOTS]; /* a ring, by time */
	size_t first, n;
	uint32_t probes;
};

struct clock_estimator *clock_estimator_new(void)
{
	return xcalloc(1, sizeof(struct clock_estimator));
}

void clock_estimator_free(struct clock_estimator *est)
{
	free(est);
}

void clock_estimator_reset(struct clock_estimator *est)
{
	*est = (struct clock_estimator){ 0 };
}

void clock_estimator_break(struct clock_estimator *est, int64_t at_ns, enum clock_break cause)
{
	(void)at_ns;
	(void)cause;
	clock_estimator_reset(est);
}

static const struct slot *slot_at(const struct clock_estimator *est, size_t i)
{
	return &est->slots[(est->first + i) % SLOTS];
}

static struct slot *slot_newest(struct clock_estimator *est)
{
	return est->n ? &est->slots[(est->first + est->n - 1) % SLOTS] : NULL;
}

static void slot_push(struct clock_estimator *est, const struct slot *s)
{
	if (est->n == SLOTS) {
		est->first = (est->first + 1) % SLOTS;
		est->n--;
	}
	est->n++;
	*slot_newest(est) = *s;
}

static bool in_range(int64_t t)
{
	return t > -TIME_MAX_NS && t < TIME_MAX_NS;
}

static bool sample_is_possible(const struct clock_sample *s)
{
	return in_range(s->t1_ns) && in_range(s->t2_ns) && in_range(s->t3_ns) &&
	       in_range(s->t4_ns) && s->t1_ns <= s->t4_ns && s->t2_ns <= s->t3_ns &&
	       s->t4_ns - s->t1_ns >= s->t3_ns - s->t2_ns;
}

static struct slot slot_of(const struct clock_sample *s)
{
	int64_t low = s->t1_ns - s->t2_ns, high = s->t4_ns - s->t3_ns;
	int64_t span = s->t4_ns - s->t1_ns;
	struct slot slot = {
		.x_ns = s->t1_ns + span / 2,
		.center_ns = low + (high - low) / 2,
		.rtt_ns = high - low,
	};

	/* The two limits hold at the span's ends: brought to its middle they may have drifted. */
	slot.half_ns = slot.rtt_ns / 2 + (int64_t)ceil((double)span / 2 * DRIFT_MAX) + 1;
	slot.start_ns = slot.x_ns;
	return slot;
}

/* The new probe and the history cannot both be true of one steady clock. */
static bool is_step(const struct slot *old, const struct slot *new)
{
	double far = fabs((double)(new->center_ns - old->center_ns));
	double allowed = (double)(new->half_ns + old->half_ns) +
			 STEP_RATE * fabs((double)(new->x_ns - old->x_ns));

	return far > allowed;
}

bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s)
{
	struct slot *newest;
	struct slot slot;

	if (s->no_request || s->no_reply)
		return true; /* this estimator has no use for half an exchange */
	if (!sample_is_possible(s))
		return false;
	slot = slot_of(s);
	newest = slot_newest(est);
	if (newest && is_step(newest, &slot)) {
		clock_estimator_reset(est);
		newest = NULL;
	}
	est->probes++;
	if (!newest || slot.x_ns - newest->start_ns >= SLOT_NS) {
		slot_push(est, &slot);
	} else if (slot.half_ns < newest->half_ns) {
		slot.start_ns = newest->start_ns;
		*newest = slot;
	}
	return true;
}

/* The rate with the narrowest bound that two probes prove; returns the bound, wander included. */
static double rate_get(const struct clock_estimator *est, double *rate)
{
	double best = DRIFT_MAX;

	*rate = 0;
	for (size_t i = 0; i < est->n; i++) {
		const struct slot *a = slot_at(est, i);

		for (size_t j = i + 1; j < est->n; j++) {
			const struct slot *b = slot_at(est, j);
			double dt = (double)(b->x_ns - a->x_ns);
			double bound = (double)(a->half_ns + b->half_ns) / dt + WANDER;

			if (dt < (double)RATE_BASE_NS || bound >= best)
				continue;
			best = bound;
			*rate = (double)(b->center_ns - a->center_ns) / dt;
		}
	}
	return best;
}

static double bound_of(const struct slot *s, int64_t now_ns, double allowance)
{
	return (double)s->half_ns + allowance * fabs((double)(now_ns - s->x_ns));
}

bool clock_estimator_get(const struct clock_estimator *est, int64_t now_ns, struct clock_model *out)
{
	const struct slot *best;
	double rate, allowance;

	if (!est->n)
		return false;
	allowance = rate_get(est, &rate);
	best = slot_at(est, 0);
	out->rtt_min_ns = best->rtt_ns;
	for (size_t i = 1; i < est->n; i++) {
		const struct slot *s = slot_at(est, i);

		if (bound_of(s, now_ns, allowance) < bound_of(best, now_ns, allowance))
			best = s;
		if (s->rtt_ns < out->rtt_min_ns)
			out->rtt_min_ns = s->rtt_ns;
	}
	out->rate = rate;
	out->offset_ns = best->center_ns + llround(rate * (double)(now_ns - best->x_ns));
	out->bound_ns = (int64_t)ceil(bound_of(best, now_ns, allowance)) + 1;
	out->bound_rate = allowance;
	out->probes = est->probes;
	return true;
}

bool clock_estimator_map(const struct clock_estimator *est, int64_t now_ns, int64_t from_ns,
			 int64_t to_ns, struct clock_model *out)
{
	(void)from_ns;
	(void)to_ns;
	return clock_estimator_get(est, now_ns, out);
}
