/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimator: makes a map from samples (docs/time.md has the proof of its bound). It reads no
 * clock and sends nothing, so that tests can feed it. All times of this side are host clock
 * (agent/clock/model.h). Loop thread.
 */
#ifndef AGENT_CLOCK_ESTIMATOR_H
#define AGENT_CLOCK_ESTIMATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/clock/model.h"
#include "agent/clock/sample.h"

struct clock_estimator;

struct clock_estimator *clock_estimator_new(void);
void clock_estimator_free(struct clock_estimator *est); /* NULL is fine */

/* For a new epoch: forgets all samples, because they describe another session clock. */
void clock_estimator_reset(struct clock_estimator *est);

/* Between these two host times the host clock broke: samples from before hold only for times before,
 * those from in between for nothing. */
void clock_estimator_break(struct clock_estimator *est, int64_t since_ns, int64_t at_ns,
			   enum clock_break cause);

/*
 * False for an impossible sample (t4 before t1, t3 before t2, negative round trip). Samples may
 * come late, twice and in any order within a few seconds.
 */
bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s);

/*
 * Fills the map of *out from all samples, those after now_ns included, and offset_ns, rate,
 * bound_ns, bound_rate, rtt_min_ns, jitter_ns, probes and bad_samples as of host time now_ns. The
 * knots of the map are around now_ns, or all over [from, to]. False while there are too few samples,
 * and for a window that begins before a break if nothing is known of the time before that break. A
 * window model may have long_knots, whatever the result: clock_model_free() frees them. A model of now
 * has `suspected`, also where it returns false.
 */
bool clock_estimator_make_model(const struct clock_estimator *est, int64_t now_ns,
				struct clock_model *out);
bool clock_estimator_make_window_model(const struct clock_estimator *est, int64_t now_ns,
				       int64_t from_ns, int64_t to_ns, struct clock_model *out);

/* Whether a break is suspected: probes that are sent now tell sooner whether it was one. */
bool clock_estimator_is_suspecting(const struct clock_estimator *est);

/* How far single probes of the last 10 s scatter around their neighbours; 0 = too few to tell. */
int64_t clock_estimator_jitter_ns(const struct clock_estimator *est, int64_t now_ns);

#endif
