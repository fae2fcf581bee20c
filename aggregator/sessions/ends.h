/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the end of a session. The ledger's last record has the member "end": what is to be done in
 * the store. A run of the aggregator that finds such a record carries the end out, from its first step on
 * even if an earlier run had begun, and then removes the ledger. Private to sessions/; functions block.
 *
 *   committed            files that the manifest does not name are removed, manifest and index entry are written
 *   failed, cancelled    its failure is recorded and its files are removed; after a retry only the files that the
 *                        manifest does not name
 *   deleted              manifest, files and index entry are removed
 */
#ifndef AGGREGATOR_SESSIONS_ENDS_H
#define AGGREGATOR_SESSIONS_ENDS_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"

struct store;

bool ledger_has_end(const json_t *record);

/* The record's hosts, or, where an end has them in its document alone, those; maybe packed, NULL if there are none. */
const json_t *ledger_hosts(const json_t *record);

/* True for every end but "committed". */
bool ledger_end_removes_files(const json_t *record);

/* As ledger_put(), for a record with an end. If the store is full, first removes files that this end removes
 * anyway. */
MUST_CHECK int ledger_put_end(struct store *s, const json_t *record, unsigned int *n,
			      struct err *e);

/* Does what the end says, then removes the ledger. The record is in the store, with number `n`. ERR_EXISTS if another
 * owner has the session now; 0 also if another one has carried the end out. */
MUST_CHECK int ledger_carry_out(struct store *s, const json_t *record, unsigned int n,
				struct err *e);

/* The same, but the ledger stays: files may still come, so the end must be carried out once more later. */
MUST_CHECK int ledger_carry_out_early(struct store *s, const json_t *record, unsigned int n,
				      struct err *e);

#endif
