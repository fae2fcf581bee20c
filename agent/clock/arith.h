/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on times that may be any int64: whole nanoseconds are exact in 128 bits, results
 * saturate. And on numbers that are compared often. */
#ifndef AGENT_CLOCK_ARITH_H
#define AGENT_CLOCK_ARITH_H

#include <math.h>
#include <stdint.h>

typedef __int128 wide;

static inline int64_t saturate(wide v)
{
	return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

/* The smaller or the larger of two numbers; b if one of them is NaN. Inline, while fmin() and fmax() are calls. */
static inline double smaller(double a, double b)
{
	return a < b ? a : b;
}

static inline double larger(double a, double b)
{
	return a > b ? a : b;
}

/* How far the injected error of clock_conf puts the host clock ahead of raw, `since_ns` after the clock service
 * started. */
static inline int64_t injected_error_ns(int64_t offset_ns, double drift_ppm, double since_ns)
{
	return offset_ns + llround(drift_ppm * 1e-6 * since_ns);
}

#endif
