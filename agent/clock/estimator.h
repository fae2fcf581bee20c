/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimator: makes a map from samples (docs/time.md has the proof of its bound). It reads no
 * clock and sends nothing, so that tests can feed it. All times of this host are on the host clock
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

/* The host clock broke between these two host times. Earlier samples then hold only for earlier times, and
 * samples between the two hold for no time. */
void clock_estimator_break(struct clock_estimator *est, int64_t since_ns, int64_t at_ns,
			   enum clock_break cause);

/*
 * False for an impossible sample (t4 before t1, t3 before t2, negative round trip). Samples may
 * come late, twice and in any order within a few seconds.
 */
bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s);

/*
 * Make a model as of host time now_ns; its map uses all samples, also those after now_ns. They set the map,
 * offset_ns, rate, rate_known, bound_ns, bound_rate, rtt_min_ns, jitter_ns, probes, steps_found and bad_samples. A
 * model of now also gets `suspected`, even if the result is false. The map's knots are around now_ns, or all over
 * [from, to]. False if there are too few samples, or if the window begins before a break and nothing is known of
 * the time before it. clock_model_free() frees the long_knots of a window's model, whatever the result.
 */
bool clock_estimator_make_model(const struct clock_estimator *est, int64_t now_ns,
				struct clock_model *out);
bool clock_estimator_make_window_model(const struct clock_estimator *est, int64_t now_ns,
				       int64_t from_ns, int64_t to_ns, struct clock_model *out);

/* Whether a break is suspected. Then probes should be sent soon, to tell whether it was one. */
bool clock_estimator_is_suspecting(const struct clock_estimator *est);

/* How far single probes of the last 10 s scatter around their neighbours; 0 = too few to tell. */
int64_t clock_estimator_jitter_ns(const struct clock_estimator *est, int64_t now_ns);

#endif
