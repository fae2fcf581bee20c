/* SPDX-License-Identifier: Apache-2.0 */
/* The run functions of a tracer that records into a ring. */
#ifndef AGENT_TRACER_RING_RUN_H
#define AGENT_TRACER_RING_RUN_H

#include "agent/tracer/ring.h"
#include "agent/tracer/tracer.h"

/* For ops->arm(): from now on the ring keeps the window's records; those that leave its memory go to a file. */
void ring_run_arm(struct ring *r, struct tracer_run *run);

/* For ops->gather(): the window's records. Removes the hold of ring_run_arm(), counts the losses in run->lost, and sets
 * result, reason and detail if the window is not complete; for other losses, only the detail. If there are losses, adds a
 * part with the plane "/host:CPU lost <what>", which shows when they were. `what` names the records
 * in the detail: "CPU samples". A window counts as complete if it begins at most `period_ns` before the ring does, and
 * no gap covers half of it, or it has more records than the gap lacks there. */
struct ring_cut *ring_run_cut(struct ring *r, struct tracer_run *run, const char *what,
			      int64_t period_ns);

/* For ops->cancel(), before and after gather(). */
void ring_run_cancel(struct ring *r, const struct tracer_run *run);

#endif
