/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves hosts' clocks by what their events prove of each other: --refine=events. One number for each host,
 * to be added to all times of its file, within the interval in which its clock certainly is. Whether and
 * where it is added is the caller's business. Pure; any input.
 *
 * What a flow or a barrier says of two hosts' numbers x: end + x of the one is not before start + x' of the
 * other. Intervals of all x are narrowed until they say no more (docs/time.md tells what is taken for
 * granted there); within them, ends of a barrier are taken to be simultaneous.
 */
#ifndef AGGREGATOR_EVIDENCE_REFINE_H
#define AGGREGATOR_EVIDENCE_REFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xspace/causality.h"

enum refine_result {
	REFINE_DONE,
	REFINE_NO_PAIRS, /* no two hosts that can be moved have anything in common */
	REFINE_CONTRADICTION, /* events run backwards beyond the clocks' bounds: somebody is wrong */
	REFINE_WANDER, /* they prove one thing now and another then: one number cannot be right */
};

const char *refine_result_name(enum refine_result r); /* docs/wire.md; "" for REFINE_DONE */

/* What is known of a host's clock without its events; below 0 is 0. */
struct refine_clock {
	int64_t bound_ns; /* no time of its file is off by more */
	int64_t earlier_ns,
		later_ns; /* so far may all its times be moved; both 0: it takes no part */
};

struct refined {
	size_t pairs; /* flows and barriers it takes part in; 0: nothing below means anything */
	int64_t offset_ns; /* to be added to its times: from -earlier_ns to later_ns */
	int64_t bound_ns; /* then they are off by no more, if the clock's error was the same all the time */
	bool has_hint; /* it has been at barriers with the reference host, */
	int64_t hint_ns; /* where their ends differed by so much, the median: this would make them equal, */
	int64_t hint_spread_ns; /* and half of them are no further from it than this */
};

struct refinement {
	size_t pairs; /* flows and barriers */
	size_t reference; /* the host that others are compared with */
	size_t n_hosts; /* that were refined */
	int64_t stray_ns; /* so much a clock was allowed to move meanwhile, the worst one */
	size_t backwards_before,
		backwards_after; /* pairs that run backwards if bounds do not count */
};

/*
 * More pairs never run backwards afterwards than before: then it is REFINE_WANDER.
 * `seen` as xs_causality_judge() gives it, its hosts below n. `hosts` (n of them) and `out` are filled in any case, with
 * zeroes unless the result is REFINE_DONE. Costs some hundred looks at all of `seen` at most.
 */
enum refine_result refine(const struct refine_clock *clocks, size_t n, const struct xs_seen *seen,
			  size_t n_seen, struct refined *hosts, struct refinement *out);

#endif
