/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of a session: a record in the store of everything that the aggregator has promised and decided
 * about a session that is under way. It exists from before the first host is asked until the session's end is
 * carried out. An aggregator that finds a ledger when it starts carries that session on (docs/format.md).
 * Loop thread.
 *
 * Changes are written one after the other, on a worker. A change that comes during a write waits for it; of
 * several that wait, the last one is written. A write that fails is repeated with growing pauses, until it
 * succeeds or another aggregator has taken the session over.
 *
 *   idle --change--> writing --written--> idle, or writing again if another change waits
 *                    writing --failed---> paused --time, change--> writing
 *                    writing --end stored, held--> held --released--> writing
 *                    writing --end carried out, lost--> over
 */
#ifndef AGGREGATOR_SESSIONS_LEDGER_H
#define AGGREGATOR_SESSIONS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

struct ledger;
struct session_store;

/*
 * Makes a record: an object with the members of docs/schema/ledger.schema.json but "version", "session",
 * "run" and "owner", a new reference; hosts may be packed (json/packed.h). Called on a worker, with access to
 * `arg` only; called again after a failure. A record with "end" is the last one, and has no plan and no hosts: after
 * it is written the end is carried out and the ledger is removed.
 */
struct ledger_change {
	int (*make)(void *arg, json_t **record, struct err *e);
	void (*release)(void *arg); /* on the loop, when it is written or superseded */
	void *arg;
};

/* The ledger does nothing more after it has called one of these, so `ended` and `lost` may close it. */
struct ledger_events {
	/* All changes are in the store: no crash undoes them. An end among them is not carried out yet. */
	void (*durable)(void *arg);

	/* A try has failed; the next one follows, unless the aggregator stops. */
	void (*refused)(void *arg, const struct err *why);

	/* The end is durable and carried out. `record` is the last record, `made_of` the `arg` of its change;
	 * both borrowed. */
	void (*ended)(void *arg, const json_t *record, const void *made_of);

	/* Another aggregator has taken the session over: nothing is written any more. */
	void (*lost)(void *arg, const struct err *why);
};

/*
 * For a new session `n` and `epoch` are 0. For a session of an earlier run, `n` is the number of its last
 * record and `epoch` that of its owner; the first change takes the session over. `sessions` and `events` live
 * longer than the ledger.
 */
struct ledger_opts {
	struct session_store *sessions;
	const char *session, *run; /* copied */
	unsigned int n;
	int64_t epoch;
	const struct ledger_events *events;
	void *arg;
};
struct ledger *ledger_open(const struct ledger_opts *opts);

/* After a change with an end there is no other one. */
void ledger_change(struct ledger *l, const struct ledger_change *change);

/* True if no change waits or is being written. */
bool ledger_is_durable(const struct ledger *l);

/* The number of the record that is certainly in the store; 0 if there is none. */
unsigned int ledger_number(const struct ledger *l);

/* While the ledger is held, files are still being written. An end that removes files is stored, but not carried out. A
 * commit is carried out, but its record stays until session_store_release(): should the aggregator end before that, the
 * next start removes the files that came too late. */
void ledger_hold(struct ledger *l, bool is_held);

/* No further try is made; a write under way goes on. */
void ledger_stop(struct ledger *l);
void ledger_close(struct ledger *l); /* no write is under way; NULL is fine */

#endif
