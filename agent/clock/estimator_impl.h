/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by estimator.c, which keeps what samples say, and estimator_model.c, which makes models of it. */
#ifndef AGENT_CLOCK_ESTIMATOR_IMPL_H
#define AGENT_CLOCK_ESTIMATOR_IMPL_H

#include "agent/clock/estimator.h"
#include "agent/clock/history.h"

#define ESTIMATOR_CONFIRM   4 /* that many probes after a found break confirm it */
#define ESTIMATOR_HISTORIES 8
#define ESTIMATOR_DOUBTS    16

struct clock_estimator {
	struct clock_history *histories[ESTIMATOR_HISTORIES]; /* in order of time */
	size_t n;
	/* What samples said that contradict those before them, and that later ones did not confirm; the latest,
	 * in order of time. */
	struct clock_claim doubts[ESTIMATOR_DOUBTS];
	size_t n_doubts;
	int64_t forgot_doubt_ns; /* of the last one that is not kept, if has_forgotten */
	bool has_forgotten;
	uint32_t probes, bad_samples;
	uint32_t steps_found; /* holds over epochs */
	enum clock_break announced; /* the last break of the host's clock; holds over epochs */
	int64_t announced_ns;
};

static inline struct clock_history *newest_history(const struct clock_estimator *est)
{
	return est->n ? est->histories[est->n - 1] : NULL;
}

/* A sample against all others is a step or a false sample. Until probes agree with it, it is
 * unknown which. */
static inline bool is_found(const struct clock_history *h)
{
	return h->cause == CLOCK_BREAK_STEP || h->cause == CLOCK_BREAK_RATE;
}

static inline bool is_confirmed(const struct clock_history *h)
{
	return !is_found(h) || h->probes >= ESTIMATOR_CONFIRM;
}

#endif
