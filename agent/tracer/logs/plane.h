/* SPDX-License-Identifier: Apache-2.0 */
/* The plane "/host:CPU logs" of a window: a line per source, an instant per log line (logs/log_event.h). */
#ifndef AGENT_TRACER_LOGS_PLANE_H
#define AGENT_TRACER_LOGS_PLANE_H

#include <stdint.h>

#include "agent/tracer/ring.h"
#include "xspace/xspace.h"

/* Returns how many records could not be read. */
uint64_t plane_build(const struct ring_cut *cut, int64_t t0_raw_ns, struct xs_builder *b);

#endif
