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
	/* Doubts: samples that contradict those before them and that later samples did not confirm. The
	 * latest ones, in order of time. */
	struct clock_claim doubts[ESTIMATOR_DOUBTS];
	size_t n_doubts;
	int64_t forgot_doubt_ns; /* if has_forgotten: the time of the last doubt that is not kept */
	bool has_forgotten;
	uint32_t probes, bad_samples;
	uint32_t steps_found; /* kept when the epoch changes */
	/* the last announced break of the host's clock; kept when the epoch changes */
	enum clock_break announced;
	int64_t announced_ns;
};

static inline struct clock_history *newest_history(const struct clock_estimator *est)
{
	return est->n ? est->histories[est->n - 1] : NULL;
}

/* Whether a sample alone began this history: it is a step or a false sample, until further probes agree with
 * it. */
static inline bool is_begun_by_sample(const struct clock_history *h)
{
	return h->cause == CLOCK_BREAK_STEP || h->cause == CLOCK_BREAK_RATE;
}

static inline bool is_confirmed(const struct clock_history *h)
{
	return !is_begun_by_sample(h) || h->probes >= ESTIMATOR_CONFIRM;
}

#endif
