/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long before T0 hosts are armed: chosen from how long the last ones took to answer. Loop thread.
 */
#ifndef AGGREGATOR_CAPTURES_LEAD_H
#define AGGREGATOR_CAPTURES_LEAD_H

#include <stddef.h>
#include <stdint.h>

#define LEAD_SAMPLES 512

struct lead {
	int64_t took_ns[LEAD_SAMPLES]; /* from sending Arm to Armed, the last so many */
	size_t n; /* ever */
};

void lead_add(struct lead *l, int64_t took_ns);

/* Three times what 99 % of them took and the largest clock error, at least `floor_ns`, at most 5 s or
 * the floor. */
int64_t lead_choose(const struct lead *l, int64_t floor_ns, int64_t clock_bound_ns);

#endif
