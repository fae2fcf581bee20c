/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded events: bursts that happen on all hosts at once, the k-th at burst_ns(k) of true time. */
#ifndef SIM_BURST_H
#define SIM_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/now.h"

#define BURST_EVERY_NS (5 * NS_PER_MS)
#define BURSTS_KEPT    40000 /* in the memory of a tracer */
#define RING_NS	       (60 * NS_PER_S) /* a window may begin so long before it is armed */

int64_t burst_ns(int64_t k);

/* True time: from when on the ring of this host's agent is complete. */
struct sim_host;
int64_t sim_ring_begin_ns(const struct sim_host *h);

/* The largest of what a tracer puts into a plane besides; agents that write small files need a small one. */
extern size_t ballast_limit;

/* Whether the tracer has the setting "depth", and says in each burst which one its run had. */
void sim_tracer_set_depth(bool has_depth);
#define SIM_DEPTH 5 /* by default */

/* Called when a run is armed, with the code's host; NULL = it is not asked for. */
struct sim_host;
extern void (*sim_tracer_armed)(const struct sim_host *h, const char *session);

struct tracer_ops;
extern const struct tracer_ops sim_tracer_ops;
extern const struct tracer_ops *const sim_tracers[]; /* NULL-terminated */

#endif
