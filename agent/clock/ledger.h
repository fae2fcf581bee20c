/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this host's wall clock ran against its raw clock. It is a history of snapshots of both, thinned out to
 * a few knots with straight lines between them. A new segment begins where the wall clock was set or the
 * machine slept.
 *
 * Frameworks stamp with the wall clock. A stamp is translated by the difference of the two clocks at that
 * time, not by the present one. A ledger is a value: copy it. Pure.
 */
#ifndef AGENT_CLOCK_LEDGER_H
#define AGENT_CLOCK_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/now.h"

#define LEDGER_KNOTS 512
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
	int64_t error_ns; /* how far the wall clock may be off the line from this knot to the next */
	bool begins_segment; /* the clocks changed between the previous knot and this one */
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
	/* slopes of the lines from the last knot that pass all points since */
	double slope_low, slope_high;
	bool is_bent; /* in the gap after the last knot */
	struct ledger_step steps[LEDGER_STEPS]; /* oldest first */
	size_t n_steps;
	uint32_t steps_seen;
};

/* What a point shows. */
enum ledger_change {
	LEDGER_NO_CHANGE,
	LEDGER_STEPPED, /* the wall clock was set; raw goes on */
	/* raw stood still, too: times from before cannot be compared with later ones */
	LEDGER_SLEPT,
	LEDGER_SWITCHED, /* another clocksource: from here on raw runs at another rate */
	LEDGER_DISRUPTED, /* the machine was moved or restored: raw may have jumped, at another rate */
};

/* Points come in the order of raw; one that is not later than the last is ignored. */
enum ledger_change ledger_add(struct clock_ledger *l, const struct ledger_point *p);

/*
 * Any input; results saturate. An empty ledger returns the input. If the wall clock was set back, some times
 * came twice: the later instant is taken. If it was set forward, a skipped time gives the instant of the
 * jump.
 */
int64_t ledger_raw_of_real(const struct clock_ledger *l, int64_t real_ns);
int64_t ledger_real_of_raw(const struct clock_ledger *l, int64_t raw_ns);

/*
 * The largest error of a translation of a raw time in [from, to], or to one. What frameworks stamped while the wall clock
 * was set is not part of it: `steps` has these times. An empty ledger has no error.
 */
int64_t ledger_error_ns(const struct clock_ledger *l, int64_t from_raw_ns, int64_t to_raw_ns);

#endif
