/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one replica's part in the lease: a worker reads the records as a follower, takes a term, and renews it until it is
 * told to stop or cannot renew. Its own worker, so that neither a slow start nor a long turn of the loop costs the
 * lease. Loop thread, unless something else is said.
 */
#ifndef AGGREGATOR_LEASE_KEEPER_H
#define AGGREGATOR_LEASE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

struct keeper;
struct loop;

/* Who leads, as a follower knows it: each text is "" until it does. */
struct leader {
	char replica[128];
	char url[512]; /* where its HTTP is reached */
};

struct keeper_opts {
	struct loop *loop;
	const char *store; /* URL; the keeper opens a store of its own */
	const char *replica; /* this replica's name, for people */
	const char *url; /* where this replica's HTTP is reached; "" = not said */
	const char *clock_file; /* the session clock that this replica uses as the leader */
	int64_t lease_ns;

	/* While this replica follows: who leads, or its clock, has changed. keeper_leader() tells the rest. `clock` is the one in
	 * the record, borrowed; NULL = not known yet. */
	void (*follows)(void *arg, const json_t *clock);

	/* This replica leads. `former` is the record of the leader before, borrowed; NULL = there is none. */
	void (*leads)(void *arg, uint64_t term, const json_t *former);

	/* It leads no more: another replica may lead from now on. */
	void (*lost)(void *arg, const char *why);
	void *arg;
};

/* All of `opts` is borrowed until keeper_free(). ERR_INVALID: the store is not one that replicas can share. */
MUST_CHECK int keeper_new(struct keeper **out, const struct keeper_opts *opts, struct err *e);

/* Returns when the store has a record with the clock file as it is now. Blocks. ERR_DENIED: this replica leads no more. */
MUST_CHECK int keeper_publish(struct keeper *k, struct err *e);

/* Whether this replica leads at this very moment. Any thread. */
bool keeper_leads(const struct keeper *k);

/* Who leads while this replica follows; it changes with the terms. Borrowed, until keeper_free(). */
const struct leader *keeper_leader(const struct keeper *k);

/* Gives the term back, so that another replica takes the next one at once; turns the loop until that is written, or
 * for a third of the lease at most. NULL is fine. */
void keeper_free(struct keeper *k);

#endif
