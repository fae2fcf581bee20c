/* SPDX-License-Identifier: Apache-2.0 */
/* The lead, chosen from how long the last hosts took to answer Arm. Loop thread. */
#ifndef AGGREGATOR_CAPTURES_LEAD_H
#define AGGREGATOR_CAPTURES_LEAD_H

#include <stddef.h>
#include <stdint.h>

#define LEAD_SAMPLES 512

struct lead {
	int64_t took_ns[LEAD_SAMPLES]; /* from Arm to Armed; the last ones, a ring */
	size_t n; /* all samples so far */
};

void lead_add(struct lead *l, int64_t took_ns);

/* Three times the 99th percentile of the samples plus `clock_bound_ns`; at least `floor_ns`; at most 5 s or
 * `floor_ns`, whichever is more. */
int64_t lead_choose(const struct lead *l, int64_t floor_ns, int64_t clock_bound_ns);

#endif
