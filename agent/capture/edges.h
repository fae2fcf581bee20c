/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where windows were cut. The clock model of an instant moves by a part of its bound while probes come in, and each
 * file is made with the newest one: an event near the instant at which two windows meet could be in both files, or in
 * none. So the first cut at an instant of the session clock holds for all further windows that begin or end there.
 */
#ifndef AGENT_CAPTURE_EDGES_H
#define AGENT_CAPTURE_EDGES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/clock/model.h"

#define EDGES_KEPT 64

struct edge {
	int64_t session_ns; /* 0 = there is none */
	int64_t raw_ns; /* an event from this instant on is behind the edge */
	int64_t bound_ns; /* of the model that placed it */
};

struct edges {
	struct edge kept[EDGES_KEPT];
	size_t next; /* the oldest one */
};

/* Both of a window. */
struct window_edges {
	struct edge from, to; /* session_ns 0: the window is not cut at edges */
};

/* The edges of a window; those that are not kept yet, or that `m` does not allow, are placed by `m` and kept. None if the
 * host slept all the time. */
struct window_edges edges_place(struct edges *all, const struct clock_model *m, int64_t t0_ns,
				int64_t t1_ns);

/* How far at most the window's edges are from where `m` places them; 0 without edges, -1 if further than the bounds of
 * then and now allow: a clock has broken. */
int64_t edges_distance_ns(const struct window_edges *w, const struct clock_model *m);

#endif
