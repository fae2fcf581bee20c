/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the offset can do between two knots of a map, where no probe is. docs/time.md, Between two knots, has the
 * proof. Pure.
 */
#ifndef AGENT_CLOCK_GAP_H
#define AGENT_CLOCK_GAP_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/clock/bend.h"
#include "agent/clock/model.h"

/* An excursion is a step of the rate and one back. It lasts for at least this, unless the probes show otherwise. */
#define CLOCK_EXCURSION_NS 300e6
/* If two neighbouring gaps together are longer than this, nothing is assumed of how long excursions last there. */
#define CLOCK_GAPS_MAX_NS 1100000000

/* What is known around a knot, beside its interval. */
struct knot_note {
	struct bend bend;
	/* An inner knot only narrows the gap between two outer ones: it has no guess of its own, and says nothing of
	 * mean rates, since it is close to its neighbours. */
	bool is_inner;
};

/* Fills the tents of n knots in order of time. The first and the last one are outer knots. */
void gaps_widen(struct clock_knot *knots, const struct knot_note *notes, size_t n);

#endif
