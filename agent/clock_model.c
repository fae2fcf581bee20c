/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translations between the three time scales. Whole nanoseconds are added and subtracted exactly;
 * only the small terms, a rate times a distance, go through floating point. Input may be anything:
 * results beyond int64 are cut off at its ends.
 */
#include "agent/clock.h"

#include <math.h>

typedef __int128 wide;

static int64_t saturate(wide v)
{
	return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

static wide scaled(double rate, wide distance)
{
	return (wide)llround(rate * (double)distance);
}

/* The host clock: raw with the injected error. */
static wide host_of_raw(const struct clock_model *m, wide raw)
{
	return raw + m->test_offset_ns +
	       scaled(m->test_drift_ppm * 1e-6, raw - m->test_start_raw_ns);
}

/* An uncalibrated model trusts this host's own clocks, error and all. */
static wide session_of_raw(const struct clock_model *m, wide raw)
{
	wide host = host_of_raw(m, raw);

	if (!m->calibrated)
		return host - m->pair_raw_ns + m->pair_real_ns;
	return host - m->offset_ns - scaled(m->rate, host - host_of_raw(m, m->at_raw_ns));
}

int64_t clock_model_session_of_raw(const struct clock_model *m, int64_t raw_ns)
{
	return saturate(session_of_raw(m, raw_ns));
}

/* Rates are small, so the distance still missing shrinks at least a thousandfold with each round. */
int64_t clock_model_raw_of_session(const struct clock_model *m, int64_t session_ns)
{
	wide raw = m->at_raw_ns;

	for (int i = 0; i < 8; i++) {
		wide missing = (wide)session_ns - session_of_raw(m, raw);

		if (!missing)
			break;
		raw += missing;
	}
	return saturate(raw);
}

int64_t clock_model_raw_of_real(const struct clock_model *m, int64_t real_ns)
{
	if (m->ledger.n_knots)
		return ledger_raw_of_real(&m->ledger, real_ns);
	return saturate((wide)real_ns - m->pair_real_ns + m->pair_raw_ns);
}

int64_t clock_model_real_of_raw(const struct clock_model *m, int64_t raw_ns)
{
	if (m->ledger.n_knots)
		return ledger_real_of_raw(&m->ledger, raw_ns);
	return saturate((wide)raw_ns - m->pair_raw_ns + m->pair_real_ns);
}

int64_t clock_model_bound_at(const struct clock_model *m, int64_t raw_ns)
{
	wide far = (wide)raw_ns - m->at_raw_ns;

	return saturate((wide)m->bound_ns + scaled(m->bound_rate, far < 0 ? -far : far));
}

enum clock_grade clock_grade_of(const struct clock_model *m, int64_t bound_ns)
{
	if (!m->calibrated)
		return CLOCK_X;
	if (bound_ns <= 10000)
		return CLOCK_A;
	if (bound_ns <= 100000)
		return CLOCK_B;
	return bound_ns <= 1000000 ? CLOCK_C : CLOCK_D;
}

const char *clock_grade_name(enum clock_grade g)
{
	static const char *const names[] = {
		[CLOCK_X] = "X", [CLOCK_A] = "A", [CLOCK_B] = "B", [CLOCK_C] = "C", [CLOCK_D] = "D",
	};

	return names[g];
}

const char *clock_break_name(enum clock_break cause)
{
	static const char *const names[] = {
		[CLOCK_BREAK_NONE] = "none",
		[CLOCK_BREAK_STEP] = "step",
		[CLOCK_BREAK_SUSPEND] = "suspend",
		[CLOCK_BREAK_SOURCE] = "clocksource",
	};

	return names[cause];
}
