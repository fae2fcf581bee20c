/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a training step will begin, from what hosts say of theirs. Pure: no clock, no I/O. Times are of
 * the session clock.
 *
 * The window is to hold the steps whole, on every host: it begins a guard before the first host is
 * expected at the first step. The guard is what the steps' own scatter, over as many as lie between, makes
 * likely to be enough. Its end is as generous: the marks of the last step end it when they come.
 */
#ifndef AGGREGATOR_CAPTURES_STEP_PLAN_H
#define AGGREGATOR_CAPTURES_STEP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STEP_NEXT (-1)

/* What one host says. */
struct step_report {
	const char *host;
	int64_t step, at_ns; /* the last that began, and when */
	int64_t period_ns, jitter_ns; /* above 0; at most the period */
};

struct step_plan {
	int64_t step; /* the first in the window */
	int64_t begins_ns; /* expected: on the first host that comes to it */
	int64_t ends_ns; /* expected: of the last one, on the last host */
	int64_t t0_ns, t1_ns; /* the window: with guards */
};

/*
 * `step` may be STEP_NEXT: the first that can be had at all. `earliest_ns` is the first instant at which
 * the hosts can be ready. ERR_INVALID says why there is no such window: nobody knows, somebody is past
 * that step or too near to it, hosts are at different steps.
 */
MUST_CHECK int step_plan_make(struct step_plan *out, const struct step_report *reports, size_t n,
			      int64_t step, int64_t n_steps, int64_t now_ns, int64_t earliest_ns,
			      struct err *e);

/* When every host has come to that step: false as long as one has not. */
bool step_plan_reached(const struct step_report *reports, size_t n, int64_t step, int64_t *at_ns);

#endif
