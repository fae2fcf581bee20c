/* SPDX-License-Identifier: Apache-2.0 */
/* The worlds in which the truth must be inside the bound, with the goals for errors in each. */
#ifndef TESTS_CLOCK_WORLDS_H
#define TESTS_CLOCK_WORLDS_H

#include "tests/lib/clock_world.h"

/* In nanoseconds; 0 = no goal. Judged over a whole minute. */
struct world_goal {
	double p50, p99, bound; /* of errors; 99 of 100 bounds are below `bound` */
};

struct world_case {
	struct clock_world world;
	struct world_goal goal;
};

extern const struct world_case world_cases[];
extern const size_t n_world_cases;

/*
 * Another host in the same kind of world: any offset to 5 s, any drift to 500 ppm; what happens in
 * it happens at any time of [from_ns, to_ns).
 */
struct clock_world world_vary(const struct clock_world *w, int64_t from_ns, int64_t to_ns);

/*
 * A capture as an agent makes it, on a host of this kind of world: connected for up to five
 * minutes, armed 2 s before a window of 10 ms to an hour, its map made when the window is over.
 * Checks `instants` of the window.
 */
void world_judge_capture(const struct clock_world *kind, size_t instants, struct world_judge *j);

/* Probes for `length_ns`, then makes maps of each 10 s of it and of the whole, and checks them
 * about every step_ns. `inner` gets the instants further than 6 s from the ends, where captures
 * are: judge goals by it. The caller frees `last` with clock_model_free(). */
void world_judge_after(const struct clock_world *w, int64_t length_ns, int64_t step_ns,
		       struct world_judge *all, struct world_judge *inner,
		       struct clock_model *last);

/* Every half second a model, as for arming, and the map of a window that ends then: checked up
 * to 10 s ahead. */
void world_judge_ahead(const struct clock_world *w, int64_t length_ns, struct world_judge *j);

#endif
