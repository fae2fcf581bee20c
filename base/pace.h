/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits how often something is done or logged whose cause may last for ever: at once the first time, then
 * after gaps that double up to a limit. If the cause was absent for two gaps, it begins anew.
 *
 *   static const struct pace_limits limits = { .first_ns = NS_PER_S, .most_ns = 60 * NS_PER_S };
 *
 *   if (pace_is_due(&pace, &limits, now_mono_ns()))
 *           log_warn(...);
 */
#ifndef BASE_PACE_H
#define BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace_limits {
	int64_t first_ns, most_ns; /* the shortest and the longest gap */
};

struct pace {
	int64_t last_ns; /* when it was last due */
	int64_t gap_ns; /* that must pass since then; 0 = it was never due */
};

/* True: do it now. Call this each time the cause is there. */
static inline bool pace_is_due(struct pace *p, const struct pace_limits *limits, int64_t now_ns)
{
	int64_t since_ns = now_ns - p->last_ns;

	if (p->gap_ns && since_ns < p->gap_ns)
		return false;
	if (!p->gap_ns || since_ns > 2 * p->gap_ns)
		p->gap_ns = limits->first_ns;
	else
		p->gap_ns = 2 * p->gap_ns < limits->most_ns ? 2 * p->gap_ns : limits->most_ns;
	p->last_ns = now_ns;
	return true;
}

#endif
