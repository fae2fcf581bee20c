/* SPDX-License-Identifier: Apache-2.0 */
/* What narrowing and choosing share. Private to refine*.c. */
#ifndef AGGREGATOR_EVIDENCE_REFINE_IMPL_H
#define AGGREGATOR_EVIDENCE_REFINE_IMPL_H

#include "aggregator/evidence/refine.h"

#define REFINE_TIME_MAX_NS (INT64_MAX / 8) /* sums of a few are in range */

struct interval {
	int64_t lo, hi;
};

struct refining {
	struct xs_seen *seen; /* of hosts and keys that count */
	size_t *keys; /* n_keys + 1: where in seen[] each begins */
	size_t n_keys;
	struct interval *room; /* by host */
	struct interval *at; /* by host: what is left of it */
	size_t n;
	int64_t stray; /* of 64 parts of a host's bound: so much its clock may move meanwhile */
	const struct refine_clock *clocks;
	struct refined *hosts;
	struct refinement *out;
};

/*
 * Narrows at[] until it says no more: then both the vector of all lower ends and that of all upper ends satisfy
 * every pair, give or take what clocks may stray, and so does whatever is half way between two such vectors. False if nothing
 * is left, or if it would take too long to find out.
 */
bool refine_narrow(struct refining *s);

/* At most so far is a host's clock off. */
int64_t refine_bound_of(const struct refining *s, size_t host);

int64_t refine_stray_of(const struct refining *s, size_t host);

/* Chooses offset, bound and hint of each host, from what is left in at[]. */
void refine_choose(struct refining *s);

static inline int64_t refine_clip(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static inline int64_t refine_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t refine_most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

#endif
