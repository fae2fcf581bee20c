/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's clock against the aggregator's.
 *
 * Three time scales:
 *   raw      CLOCK_MONOTONIC_RAW of this machine: what tracers and marks stamp with.
 *   session  the aggregator's clock (reads as Unix ns, never stepped): what T0 is given in.
 *   real     CLOCK_REALTIME of this machine: what framework profilers stamp with.
 * The clock probes the aggregator over UDP and keeps a model raw -> session with a bound on its
 * error. A model is a value: take one with clock_model(), hand it to a worker, translate with it.
 *
 * For tests only, an error can be injected: the clock then behaves as if this machine's raw clock
 * were off by offset_ns and ran drift_ppm fast, in the probes and in every translation. A right model
 * makes the error vanish again.
 *
 * Loop thread, except the clock_model_*() functions, which are pure.
 */
#ifndef AGENT_CLOCK_H
#define AGENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct clock;

struct clock_conf {
	struct loop *loop;
	int64_t test_offset_ns;
	double test_drift_ppm;
};

struct clock_model {
	bool calibrated; /* false: raw -> session is this host's own REALTIME, the
					 * injected error included: nothing has removed it */
	int64_t at_raw_ns; /* where offset_ns holds */
	int64_t offset_ns; /* host clock (raw with the injected error) - session, at at_raw_ns */
	double rate; /* change of offset per ns of host clock */
	int64_t bound_ns; /* |error| of a translation at at_raw_ns is at most this */
	double bound_rate; /* growth of the bound per ns away from at_raw_ns */
	int64_t rtt_min_ns;
	uint32_t probes; /* answered probes behind the model */
	int64_t pair_raw_ns, pair_real_ns; /* raw and real of one instant */
	int64_t test_offset_ns, test_start_raw_ns;
	double test_drift_ppm;
};

MUST_CHECK int clock_new(struct clock **out, const struct clock_conf *conf, struct err *e);
void clock_free(struct clock *c); /* NULL is fine */

/* Probe this aggregator from now on. Another epoch than before forgets all history. */
MUST_CHECK int clock_set_peer(struct clock *c, const char *host, int port, uint64_t cookie,
			      uint64_t epoch, struct err *e);
void clock_unset_peer(struct clock *c); /* the model ages: its bound grows */

/* Probe every 250 ms instead of 2 s until then (CLOCK_MONOTONIC): around the window of a capture.
 * Several wishes: the latest end counts. */
void clock_hurry(struct clock *c, int64_t until_mono_ns);

/* The model as of now. */
struct clock_model clock_model(const struct clock *c);

/* Exact but for the rounding of the drift; any input, results saturate. */
int64_t clock_model_session_of_raw(const struct clock_model *m, int64_t raw_ns);
int64_t clock_model_raw_of_session(const struct clock_model *m, int64_t session_ns);
int64_t clock_model_raw_of_real(const struct clock_model *m, int64_t real_ns);
int64_t clock_model_real_of_raw(const struct clock_model *m, int64_t raw_ns);
int64_t clock_model_bound_at(const struct clock_model *m, int64_t raw_ns);

/* ---- the estimator, apart from the probing, so that tests can feed it ---- */

struct clock_sample {
	int64_t t1_ns, t4_ns; /* host clock: before sending, after receipt */
	int64_t t2_ns, t3_ns; /* session clock: at receipt, before the reply */
};

struct clock_estimator;
struct clock_estimator *clock_estimator_new(void);
void clock_estimator_free(struct clock_estimator *est);
void clock_estimator_reset(struct clock_estimator *est);

/* False for a sample that cannot be (t4 before t1, t3 before t2, negative round trip). */
bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s);

/* Offset, rate and bound at host time `now_ns`; false until there is a sample. Fills offset_ns, rate,
 * bound_ns, bound_rate, rtt_min_ns, probes of *out. */
bool clock_estimator_get(const struct clock_estimator *est, int64_t now_ns,
			 struct clock_model *out);

#endif
