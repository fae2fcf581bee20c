/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The translation from a host's clock to the session clock over a window, as knots for xs_rebase. It follows
 * the clock model, its rates, steering, and steps of the wall clock, to 1 ns. Pure.
 */
#ifndef AGENT_CAPTURE_ASSEMBLE_CURVE_H
#define AGENT_CAPTURE_ASSEMBLE_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/clock/model.h"
#include "xspace/xspace.h"

/* A clock of the host, and the session time that becomes zero. */
struct curve_scale {
	const struct clock_model *model;
	bool real; /* CLOCK_REALTIME; else raw */
	int64_t t0_ns; /* session clock */
};

/* Time since T0 of a line that starts at `ns`, possibly outside the window: chosen so that its events in
 * [t0, t1) are right. Saturates. */
int64_t curve_line_since_t0(const struct curve_scale *s, int64_t t1_ns, int64_t ns);

/* Largest error of an event in [t0, t1) if lines are moved as wholes. */
int64_t curve_line_error_ns(const struct curve_scale *s, int64_t t1_ns);

/*
 * Replaces the knots so that the window is cut at two instants of the raw clock: times from from_ns on and
 * before to_ns become [0, window_ns), and no other time does. Frees the old knots; the caller frees the new
 * ones.
 */
struct xs_knot *curve_cut_at_edges(const struct curve_scale *s, int64_t window_ns, int64_t from_ns,
				   int64_t to_ns, struct xs_knot *knots, size_t *n);

/* Knots over [t0, t1), and over as much time before and after it. The caller frees them. */
struct xs_knot *curve_knots(const struct curve_scale *s, int64_t t1_ns, size_t *n);

#endif
