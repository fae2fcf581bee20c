/* SPDX-License-Identifier: Apache-2.0 */
/* The worlds in which the truth must be inside the bound, with the goals for errors in each. */
#ifndef TESTS_CLOCK_WORLDS_H
#define TESTS_CLOCK_WORLDS_H

#include "tests/lib/clock_world.h"

/* In nanoseconds; 0 = no goal. Judged over a whole minute of "5 pairs per second". */
struct world_goal {
	double p50, p99, bound; /* of errors; 99 of 100 bounds are below `bound` */
};

struct world_case {
	struct clock_world world;
	struct world_goal goal;
};

extern const struct world_case world_cases[];
extern const size_t n_world_cases;

/* Probes for `length_ns`, then makes maps of each 10 s of it and of the whole, and checks them
 * about every step_ns. `inner` gets the instants further than 6 s from the ends, where captures
 * are: judge goals by it. */
void world_judge_after(const struct clock_world *w, int64_t length_ns, int64_t step_ns,
		       struct world_judge *all, struct world_judge *inner,
		       struct clock_model *last);

/* Every half second a model, as for arming, and the map of a window that ends then: checked up
 * to 10 s ahead. */
void world_judge_ahead(const struct clock_world *w, int64_t length_ns, struct world_judge *j);

#endif
