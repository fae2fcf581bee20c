/* SPDX-License-Identifier: Apache-2.0 */
/* What refine.c and refine_choose.c share; private to them. */
#ifndef AGGREGATOR_EVIDENCE_REFINE_IMPL_H
#define AGGREGATOR_EVIDENCE_REFINE_IMPL_H

#include "aggregator/evidence/refine.h"

#define REFINE_TIME_MAX_NS (INT64_MAX / 8) /* sums of a few are in range */

struct interval {
	int64_t lo, hi;
};

struct refining {
	struct xs_seen *seen; /* of hosts and keys that take part */
	size_t *keys; /* n_keys + 1 indices: where each key begins in seen[] */
	size_t n_keys;
	struct interval *slack; /* by host */
	struct interval *at; /* by host: the part of `slack` that is still possible */
	size_t n;
	int64_t stray; /* how far a clock may wander, in 1/64 of its bound */
	const struct refine_clock *clocks;
	struct refined *hosts;
	struct refinement *out;
};

/*
 * Narrows at[] until nothing changes. Then every pair holds, up to the stray, if all hosts take their lower
 * ends, if all take their upper ends, and for the mean of two such solutions. False if an interval is
 * empty, or if narrowing takes too many rounds.
 */
bool refine_narrow(struct refining *s);

/* The largest possible error of a host's clock. */
int64_t refine_bound_of(const struct refining *s, size_t host);

/* How far a host's clock may wander. */
int64_t refine_stray_of(const struct refining *s, size_t host);

/* Chooses offset, bound and hint of each host within at[]. */
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
