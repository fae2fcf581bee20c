/* SPDX-License-Identifier: Apache-2.0 */
/* What a tracer that stands on a ring does for its runs. */
#ifndef AGENT_TRACER_RING_RUN_H
#define AGENT_TRACER_RING_RUN_H

#include "agent/tracer/ring.h"
#include "agent/tracer/tracer.h"

/* For ops->arm(): from now on the ring keeps what the window needs, in a file if it must. */
void ring_run_arm(struct ring *r, struct tracer_run *run);

/* For ops->gather(): the window's records. Ends what ring_run_arm() began, counts the losses in run->lost
 * and sets result, reason and detail if the window is not complete. `what` names the records in the
 * detail: "CPU samples". A window that begins up to `period_ns` before the ring is complete. */
struct ring_cut *ring_run_cut(struct ring *r, struct tracer_run *run, const char *what,
			      int64_t period_ns);

/* For ops->cancel(), before and after gather(). */
void ring_run_cancel(struct ring *r, const struct tracer_run *run);

#endif
