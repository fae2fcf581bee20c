/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock's way to the session clock over a window, as knots for xs_rebase. What the model knows, rates
 * and steering and steps of the wall clock, is in there to 1 ns. Pure.
 */
#ifndef AGENT_CAPTURE_ASSEMBLE_CURVE_H
#define AGENT_CAPTURE_ASSEMBLE_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/clock/model.h"
#include "xspace/xspace.h"

/* Which clock, and where zero is: `t0_ns` on the session clock. */
struct curve_scale {
	const struct clock_model *model;
	bool real; /* CLOCK_REALTIME; else raw */
	int64_t t0_ns;
};

/* ns since T0; saturates. */
int64_t curve_since_t0(const struct curve_scale *s, int64_t ns);

/* The start of a line, wherever it is, so that its events in [t0, t1) are right; saturates. */
int64_t curve_line_since_t0(const struct curve_scale *s, int64_t t1_ns, int64_t ns);

/* How far an event in [t0, t1) is off, at most, that keeps its distance to its line's start. */
int64_t curve_stretch_ns(const struct curve_scale *s, int64_t t1_ns);

/* For [t0, t1) and as much again to both sides; yours: free(). */
struct xs_knot *curve_knots(const struct curve_scale *s, int64_t t1_ns, size_t *n);

#endif
