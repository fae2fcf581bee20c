/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this host's wall clock ran against its raw clock: a history of snapshots of both, thinned to the
 * few points between which lines describe it, cut where the wall clock was set or the machine slept.
 *
 * Frameworks stamp with the wall clock. What a stamp means must be told by how the two clocks stood
 * at that time, not by how they stand now. A ledger is a value: copy it. Pure.
 */
#ifndef AGENT_CLOCK_LEDGER_H
#define AGENT_CLOCK_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_KNOTS 32
#define LEDGER_STEPS 8 /* remembered; all are counted */

/* All clocks of one instant. */
struct ledger_point {
	int64_t raw_ns, real_ns;
	int64_t width_ns; /* of the bracket: how far apart the two may have been read */
	int64_t suspended_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
	uint64_t source; /* what the kernel keeps time by, as now_source(); 0 = unknown */
};

struct ledger_knot {
	int64_t raw_ns, real_ns;
	bool fresh; /* begins a segment: between it and the one before the clock stepped */
};

enum ledger_kind { LEDGER_SET, LEDGER_SUSPEND, LEDGER_SOURCE };

struct ledger_step {
	enum ledger_kind kind;
	int64_t from_raw_ns, to_raw_ns; /* it happened in between */
	int64_t delta_ns; /* of the wall clock against raw, or slept */
};

struct clock_ledger {
	struct ledger_knot knots[LEDGER_KNOTS]; /* oldest first */
	size_t n_knots; /* 0 = empty */
	struct ledger_point last; /* after the last knot, or it */
	double slope_low, slope_high; /* lines from the last knot that pass all points since */
	struct ledger_step steps[LEDGER_STEPS]; /* oldest first */
	size_t n_steps;
	uint32_t steps_seen;
};

enum ledger_news {
	LEDGER_NOTHING,
	LEDGER_STEPPED, /* the wall clock was set; raw is unharmed */
	LEDGER_SLEPT, /* raw stood still as well: what was known of it is worth nothing */
	LEDGER_SWITCHED, /* to another clocksource: from here on raw runs at another rate */
};

/* Points come in the order of raw_ns; one that does not come later than the last is left out. */
enum ledger_news ledger_add(struct clock_ledger *l, const struct ledger_point *p);

/*
 * Any input; results saturate. Of an empty ledger: the input. A wall clock that was set back showed
 * some times twice: the later is taken. A time that it jumped over is that of the jump.
 */
int64_t ledger_raw_of_real(const struct clock_ledger *l, int64_t real_ns);
int64_t ledger_real_of_raw(const struct clock_ledger *l, int64_t raw_ns);

#endif
