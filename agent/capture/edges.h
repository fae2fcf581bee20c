/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers where windows were cut. Each probe moves the clock model a little, and each file is made with the
 * newest model. So an event near the instant at which two windows meet could be in both files, or in neither.
 * Therefore the first cut at an instant of the session clock holds for all further windows that begin or end
 * at that instant.
 */
#ifndef AGENT_CAPTURE_EDGES_H
#define AGENT_CAPTURE_EDGES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/clock/model.h"

#define EDGES_KEPT 64

struct edge {
	int64_t session_ns; /* 0 = there is none */
	int64_t raw_ns; /* events from this instant on are after the edge */
	int64_t bound_ns; /* of the model that placed it; more if the order of edges moved it further */
};

struct edges {
	struct edge kept[EDGES_KEPT];
	size_t next; /* the oldest one */
};

/* Both edges of a window. */
struct window_edges {
	struct edge from, to; /* session_ns 0: the window is not cut at edges */
};

/* The edges of a window: kept ones, if `m` allows them within the bounds; else new ones, which `m` places and
 * which are kept. The raw times of edges are in the order of their session times, at least 1 ns apart, as far as `m`
 * allows the kept ones: a window in which the host slept, or of which `m` assumes it, is cut to 1 ns. */
struct window_edges edges_place(struct edges *all, const struct clock_model *m, int64_t t0_ns,
				int64_t t1_ns);

/* The largest distance of the window's edges from where `m` places them; 0 without edges. -1 if it is more
 * than the bounds of both models allow: then a clock has broken. */
int64_t edges_distance_ns(const struct window_edges *w, const struct clock_model *m);

#endif
