/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts when a training step begins, from the reports of hosts. Pure: no clock, no I/O. Times are of the
 * session clock.
 *
 * The window must hold the whole steps on every host. It begins some time (the guard) before the first host
 * is expected to begin the first step. The guard grows with the jitter of the steps' length and with the
 * number of steps that come before. The window ends a guard after the last expected end; the marks of the
 * last step end it earlier.
 */
#ifndef AGGREGATOR_CAPTURES_STEP_PLAN_H
#define AGGREGATOR_CAPTURES_STEP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STEP_NEXT (-1)

/* Of one host. */
struct step_report {
	const char *host;
	int64_t step, at_ns; /* the last step that began, and when */
	int64_t period_ns, jitter_ns; /* above 0; at most the period */
};

struct step_plan {
	int64_t step; /* the first in the window */
	int64_t begins_ns; /* expected begin of that step on the first host */
	int64_t ends_ns; /* expected end of the last step on the last host */
	int64_t t0_ns, t1_ns; /* the window: with guards */
};

/*
 * `step` may be STEP_NEXT: the first step that the hosts can be armed for. `earliest_ns` is the first instant at
 * which they can be ready. ERR_INVALID has the reason why there is no such window: no host has a step, a host
 * is past the step or too near to it, hosts are at different steps.
 */
MUST_CHECK int step_plan_make(struct step_plan *out, const struct step_report *reports, size_t n,
			      int64_t step, int64_t n_steps, int64_t now_ns, int64_t earliest_ns,
			      struct err *e);

/* True, and `*at_ns`, when every host has begun that step. */
bool step_plan_reached(const struct step_report *reports, size_t n, int64_t step, int64_t *at_ns);

#endif
