/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock model: a map between three time scales, with a bound on its error.
 *
 *   raw      CLOCK_MONOTONIC_RAW of this machine: the time stamp of tracers and marks.
 *   session  the aggregator's clock (reads as Unix ns, never stepped): the scale of T0.
 *   real     CLOCK_REALTIME of this machine, the wall clock: the time stamp of framework profilers.
 *
 * A model is a value: copy it, pass it to a worker, translate with it. The functions are pure. Copies share
 * long_knots: see clock_model_free().
 *
 * The host clock is raw plus an injected error (struct clock_conf), which is 0 outside of tests. The map is
 * between the host clock and the session clock; a right map removes the error again.
 */
#ifndef AGENT_CLOCK_MODEL_H
#define AGENT_CLOCK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/clock/ledger.h"

/* The quality of a translation, by its bound: A to 10 us, B to 100 us, C to 1 ms, D worse, X
 * unknown. */
enum clock_grade { CLOCK_X, CLOCK_A, CLOCK_B, CLOCK_C, CLOCK_D };

/* Why a segment begins: the host clock or the session clock changed. */
enum clock_break {
	CLOCK_BREAK_NONE, /* the first segment */
	CLOCK_BREAK_STEP, /* the probes contradict each other at any rate: found by the estimator */
	CLOCK_BREAK_RATE, /* the probes contradict the rate so far, but another rate may explain them */
	CLOCK_BREAK_SUSPEND, /* the machine slept, or was stopped and moved */
	CLOCK_BREAK_SOURCE, /* the kernel changed its clocksource */
	CLOCK_BREAK_MOVED, /* the hypervisor says that it disrupted the clock */
	CLOCK_BREAK_TAKEOVER, /* the session clock went on on another machine */
	CLOCK_BREAK_DOUBT, /* seen by fewer than 4 probes: either the clock jumped or these probes are false */
	CLOCK_BREAKS,
};

/* How far the end of an interval may be beyond the line between two knots: at most as far as a tent that climbs from
 * each of them at a slope of its own, in ns per ns. */
struct clock_tent {
	float left, right;
};

/* One of two ways in which the offset may bend around a knot. If it is this way, the ends of the knot's interval are
 * closer by these, and the interval widens by these up to the next knot. */
struct clock_way {
	int64_t cut_lo_ns, cut_hi_ns; /* 0 or above */
	struct clock_tent below, above;
};

#define CLOCK_WAYS 2

/* At host time host_ns the host clock is ahead of the session clock by offset_ns, the best guess; it is certain
 * that the offset lies in [lo_ns, hi_ns]. Up to the next knot, it goes one of the ways. */
struct clock_knot {
	int64_t host_ns;
	int64_t offset_ns, lo_ns, hi_ns;
	struct clock_way ways[CLOCK_WAYS];
};

/* A period without a break: knots in order of time, and how the offset moves beyond them. */
struct clock_segment {
	enum clock_break cause; /* of its beginning */
	uint16_t first, n; /* its knots; n > 0 */
	double rate; /* change of the offset per ns of host clock, the best guess */
	/* Beyond the knots the true rate differs from `rate` by at most: */
	double drift; /* up to horizon_ns away */
	double drift_far; /* further away */
	int64_t horizon_ns;
};

/* A suspected break: fewer than 4 probes show it, and these may be false. Times are of the session clock, translated
 * as before the break. */
struct clock_suspicion {
	enum clock_break cause; /* STEP or RATE; NONE: no break is suspected */
	/* times of the last probe before the break and of the first one after it */
	int64_t from_ns, to_ns;
	int64_t delta_ns; /* the offset moved by at least this, if it did */
	int64_t known_ns; /* by then it is known whether it did, if probes are answered */
};

#define CLOCK_KNOTS	 256 /* in a model; the map of a longer window has memory of its own */
#define CLOCK_KNOTS_LONG 16384
#define CLOCK_SEGMENTS	 16

struct clock_model {
	bool calibrated; /* false: session is this host's wall clock plus the injected error */
	int64_t at_raw_ns; /* where offset_ns and bound_ns hold */
	int64_t offset_ns; /* host clock - session, at at_raw_ns */
	double rate; /* change of the offset per ns of host clock */
	bool rate_known; /* false: the history is too short to prove anything of it */
	int64_t bound_ns; /* |error| of a translation at at_raw_ns is at most this */
	double bound_rate; /* growth of the bound per ns away from at_raw_ns */
	int64_t rtt_min_ns;
	int64_t jitter_ns; /* median distance of single probes from the map: precision within
					 * one path, never accuracy */
	uint32_t probes; /* answered probes behind the model */
	uint32_t steps_found; /* breaks that the estimator found, of all times */
	uint32_t bad_samples; /* samples that are impossible, or that all others contradict */
	int64_t pair_raw_ns, pair_real_ns; /* raw and real at one instant */
	int64_t wall_error_ns; /* of real against UTC, as the kernel reports it; -1 = unknown */
	struct clock_ledger ledger; /* raw to real over time; empty: the pair holds always */
	struct clock_suspicion suspected; /* of models of now: they are not calibrated then */
	const char *method; /* whose stamps: "udp-kernel", "udp-user"; "stream" = no UDP; NULL */
	int64_t test_offset_ns, test_start_raw_ns; /* the injected error */
	double test_drift_ppm;

	/* The map. Without segments it is the line through (at_raw_ns, offset_ns). */
	uint16_t n_segments, n_knots;
	struct clock_segment segments[CLOCK_SEGMENTS];
	struct clock_knot knots[CLOCK_KNOTS];
	struct clock_knot *long_knots; /* all of them, if they are more; NULL = knots */
};

/* Frees long_knots: once for all copies of a model. Only the models of windows have them. */
void clock_model_free(struct clock_model *m);

static inline const struct clock_knot *clock_model_knots(const struct clock_model *m)
{
	return m->long_knots ? m->long_knots : m->knots;
}

/*
 * Translations. Exact except for the rounding of the drift; any input, results saturate. A session
 * time at which this machine slept is the last raw time before the sleep.
 */
int64_t clock_model_session_of_raw(const struct clock_model *m, int64_t raw_ns);
int64_t clock_model_raw_of_session(const struct clock_model *m, int64_t session_ns);
int64_t clock_model_raw_of_real(const struct clock_model *m, int64_t real_ns);
int64_t clock_model_real_of_raw(const struct clock_model *m, int64_t raw_ns);

/* When knot i of the map is, on the raw clock. */
int64_t clock_model_knot_raw_ns(const struct clock_model *m, size_t i);

/* The raw offset: host clock - session, at this time. Its zero is arbitrary. Saturates. */
int64_t clock_model_raw_offset_at(const struct clock_model *m, int64_t raw_ns);

/* The wall offset: this host's wall clock, injected error included, - session, at this time.
 * Saturates. */
int64_t clock_model_wall_offset_at(const struct clock_model *m, int64_t raw_ns);

/* The bound of the translation of raw_ns, and the largest bound of any time in [from, to]. */
int64_t clock_model_bound_at(const struct clock_model *m, int64_t raw_ns);
int64_t clock_model_bound_over(const struct clock_model *m, int64_t from_raw_ns, int64_t to_raw_ns);

/*
 * By how much all session times of [from, to] may be moved with one number, so that the offset stays in its
 * interval everywhere. {0, 0} over a break, where no such number exists, and without a map.
 */
struct clock_slack {
	int64_t earlier_ns, later_ns; /* 0 or above */
};
struct clock_slack clock_model_slack_over(const struct clock_model *m, int64_t from_raw_ns,
					  int64_t to_raw_ns);

enum clock_grade clock_grade_of(const struct clock_model *m, int64_t bound_ns);
const char *clock_grade_name(enum clock_grade g); /* "A" .. "X" */
const char *clock_break_name(enum clock_break cause);

#endif
