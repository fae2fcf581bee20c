/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who of several aggregators leads: the rules, without a store and without a clock (docs/replicas.md). The store has a
 * record for each term; the highest term's holder leads while it renews its record. All times are CLOCK_MONOTONIC of
 * the one replica that asks: no clocks of two machines are compared. The clocks need only run at the same speed, to a
 * third.
 *
 *   a leader leads until LEASE_LEAD of the lease has passed since it BEGAN its last renewal that succeeded;
 *   a follower takes the next term when the record has stayed the same for the whole lease since it FINISHED the
 *   first read of it, and a read that began after that finds it unchanged.
 *
 * A renewal that ends after the time to lead is over does not count: so each renewal that counts was in the store
 * before a follower's last read could begin.
 */
#ifndef AGGREGATOR_LEASE_LEASE_H
#define AGGREGATOR_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

/* What the store says: the record of the highest term. Zeroed: there is none. */
struct lease_view {
	uint64_t term;
	uint64_t beat; /* grows with each renewal */
	bool released; /* the holder has stopped, and leads no more */
};

struct lease {
	int64_t lease_ns;
	struct lease_view seen; /* what this replica read last */
	int64_t seen_at_ns; /* when it had first read that */
	bool has_read;
	uint64_t term; /* the term that this replica holds; 0 = it follows */
	int64_t leads_until_ns; /* what it holds, it holds until then */
};

/* Takes a read that began and ended at these times. True if this replica may try to create the record of term
 * `view->term + 1` now. */
bool lease_read(struct lease *l, const struct lease_view *view, int64_t begun_ns, int64_t ended_ns);

/* The record of `term` was created, or renewed, in a put that began and ended at these times. False if it came too late: this
 * replica does not lead (any more). */
bool lease_wrote(struct lease *l, uint64_t term, int64_t begun_ns, int64_t ended_ns);

bool lease_leads(const struct lease *l, int64_t now_ns);

#endif
