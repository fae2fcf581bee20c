/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ledger records in the store, docs/schema/ledger.schema.json. Private to sessions/; all functions block.
 *
 *   tutti/ledger/<session>.<N>.json      N = 1, 2, ... in six digits
 *
 * Each record is created, never replaced; the highest N holds. If two aggregators use the same session,
 * both try to create N + 1, and the store refuses one: that one has lost the session. Older records are
 * removed once a newer one exists, so a writer can succeed in creating N + 1 after another owner has gone
 * further. After each put the writer therefore checks that no higher record exists and that its own last
 * record is still there.
 */
#ifndef AGGREGATOR_SESSIONS_LEDGER_RECORD_H
#define AGGREGATOR_SESSIONS_LEDGER_RECORD_H

#include <stdbool.h>

#include <jansson.h>

#include "aggregator/sessions/sessions_impl.h"
#include "base/err.h"

/* A record has the first version that can read it: an aggregator of an earlier release beside this one goes on with what
 * is under way, and leaves an end alone whose hosts it would miss. */
#define LEDGER_VERSION	   1
#define LEDGER_END_VERSION 2 /* an end whose plan and hosts are in its document alone */

struct store;

/* Whether the session has a record. */
MUST_CHECK int ledger_find(struct store *s, const char *session, bool *found, struct err *e);

/*
 * The highest record that can be read, a new reference; `*n` is the highest number that is there. ERR_NOT_FOUND;
 * ERR_UNSUPPORTED if the record has a version that this program does not know; ERR_INVALID if none can be read.
 */
MUST_CHECK int ledger_load(struct store *s, const char *session, json_t **record, unsigned int *n,
			   struct err *e);

/*
 * Creates the record after `*n`, sets `*n` to its number and removes the older ones. ERR_EXISTS if another owner
 * has written meanwhile. After any other failure the same call may be repeated.
 */
MUST_CHECK int ledger_put(struct store *s, const char *session, const json_t *record,
			  unsigned int *n, struct err *e);

/*
 * Whether record `n` is still there. ERR_EXISTS if another owner than that of `record` has written a higher one; a higher
 * one of the same owner is of a put whose answer was lost.
 */
MUST_CHECK int ledger_check(struct store *s, const json_t *record, unsigned int n, bool *is_there,
			    struct err *e);

/*
 * The state of one owner's checks while it carries an end out. The process may be frozen between any two
 * steps. Meanwhile another aggregator may take the session over, end it and begin a retry, whose records
 * count from 1 again. So before each step that changes the store the owner checks that its record is still
 * there, still the last and still its own, unless it has checked within the last second.
 */
struct ownership {
	struct store *store;
	const json_t *record; /* the last one, as it is in the store; borrowed */
	unsigned int n; /* its number */
	int64_t looked_ns; /* 0 = not yet */
	bool is_gone; /* the record is gone, because the end has been carried out */
};

/* ERR_EXISTS if another owner has the session, or has ended it (`is_gone`). */
MUST_CHECK int ownership_check(struct ownership *o, struct err *e);

/* Removes the owner's records, the highest last, so that the record that holds is always the last one left. */
MUST_CHECK int ledger_remove(struct ownership *o, struct err *e);

#endif
