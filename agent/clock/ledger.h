/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this host's wall clock ran against its raw clock: a history of snapshots of both, thinned to
 * the few knots between which lines describe it, cut where the wall clock was set or the machine
 * slept.
 *
 * Frameworks stamp with the wall clock. A stamp is translated by how the two clocks stood at that
 * time, not by how they stand now. A ledger is a value: copy it. Pure.
 */
#ifndef AGENT_CLOCK_LEDGER_H
#define AGENT_CLOCK_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/now.h"

#define LEDGER_KNOTS 32
#define LEDGER_STEPS 8 /* remembered; all are counted */

/* All clocks at one instant. */
struct ledger_point {
	struct clock_pair pair;
	int64_t suspended_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
	uint64_t source; /* the kernel's clocksource, as now_source(); 0 = unknown */
	uint64_t disruption; /* the hypervisor's mark, as now_disruption(); 0 = unknown */
};

struct ledger_knot {
	int64_t raw_ns, real_ns;
	bool begins_segment; /* between it and the knot before the clocks changed */
};

enum ledger_kind { LEDGER_SET, LEDGER_SUSPEND, LEDGER_SOURCE, LEDGER_MOVED };

struct ledger_step {
	enum ledger_kind kind;
	int64_t from_raw_ns, to_raw_ns; /* it happened in between */
	int64_t delta_ns; /* SUSPEND: the time slept; else how far the wall clock moved against raw */
};

struct clock_ledger {
	struct ledger_knot knots[LEDGER_KNOTS]; /* oldest first */
	size_t n_knots; /* 0 = empty */
	struct ledger_point last; /* at the last knot or after it */
	double slope_low, slope_high; /* lines from the last knot that pass all points since */
	struct ledger_step steps[LEDGER_STEPS]; /* oldest first */
	size_t n_steps;
	uint32_t steps_seen;
};

/* What a point shows. */
enum ledger_change {
	LEDGER_NO_CHANGE,
	LEDGER_STEPPED, /* the wall clock was set; raw goes on */
	LEDGER_SLEPT, /* raw stood still as well: no longer comparable with what it was */
	LEDGER_SWITCHED, /* another clocksource: from here on raw runs at another rate */
	LEDGER_DISRUPTED, /* the machine was moved or restored: raw may have jumped, at another rate */
};

/* Points come in the order of raw; one that is not later than the last is ignored. */
enum ledger_change ledger_add(struct clock_ledger *l, const struct ledger_point *p);

/*
 * Any input; results saturate. An empty ledger returns the input. A wall clock that was set back
 * showed some times twice: such a time gives its later instant. A time that it skipped gives the
 * instant of the jump.
 */
int64_t ledger_raw_of_real(const struct clock_ledger *l, int64_t real_ns);
int64_t ledger_real_of_raw(const struct clock_ledger *l, int64_t raw_ns);

#endif
