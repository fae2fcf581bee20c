/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement (--refine=events): moves hosts within their slack so that shared events agree. For each host
 * it computes one offset within the host's slack, to be added to all times of its file. The caller decides
 * whether and where to add it. Pure; any input.
 *
 * A flow or barrier of two hosts constrains their numbers x and x': "end on the first host + x" is not before
 * "start on the second host + x'". Intervals of all x are narrowed until nothing changes (docs/time.md has
 * the assumptions); within them, ends of a barrier are assumed to be simultaneous.
 */
#ifndef AGGREGATOR_EVIDENCE_REFINE_H
#define AGGREGATOR_EVIDENCE_REFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xspace/causality.h"

enum refine_result {
	REFINE_DONE,
	REFINE_NO_PAIRS, /* no two hosts with slack share a flow or barrier */
	REFINE_CONTRADICTION, /* events run backwards beyond the clocks' bounds */
	REFINE_WANDER, /* clocks wander: no single number per host is right for the whole window */
};

const char *refine_result_name(enum refine_result r); /* docs/wire.md; "" for REFINE_DONE */

/* A host's clock without its events; negative numbers count as 0. */
struct refine_clock {
	int64_t bound_ns; /* no time of its file is off by more */
	int64_t earlier_ns, later_ns; /* its slack; both 0: it takes no part */
};

struct refined {
	size_t pairs; /* flows and barriers it takes part in; 0: the members below are not set */
	int64_t offset_ns; /* to be added to its times: from -earlier_ns to later_ns */
	int64_t bound_ns; /* of the moved times, if the clock's error was constant */
	bool has_hint; /* it shares barriers with the reference host */
	int64_t hint_ns; /* the median difference of their ends: adding it makes them equal */
	int64_t hint_spread_ns; /* half of the differences are no further from the median */
};

struct refinement {
	size_t pairs; /* flows and barriers */
	size_t reference; /* the host that others are compared with */
	size_t n_hosts; /* refined hosts */
	int64_t stray_ns; /* the most that a clock was allowed to wander */
	/* pairs that run backwards if the bounds of the clocks are ignored */
	size_t backwards_before, backwards_after;
};

/*
 * `seen` is from xs_causality_judge(), with hosts below n. Fills `hosts` (n of them) and `out`, with zeroes unless
 * the result is REFINE_DONE. If more pairs would run backwards afterwards than before, it is REFINE_WANDER. Goes
 * over `seen` some hundred times at most.
 */
enum refine_result refine(const struct refine_clock *clocks, size_t n, const struct xs_seen *seen,
			  size_t n_seen, struct refined *hosts, struct refinement *out);

#endif
