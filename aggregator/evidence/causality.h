/* SPDX-License-Identifier: Apache-2.0 */
/* Causality check of a session: its result goes into the manifest. */
#ifndef AGGREGATOR_EVIDENCE_CAUSALITY_H
#define AGGREGATOR_EVIDENCE_CAUSALITY_H

#include <stdint.h>

#include <jansson.h>

struct store;

/*
 * Reads the stored files of a manifest that is about to be written, sets its "causality" (docs/wire.md) and, if
 * events run backwards, adds a sentence to its "warnings". Names hosts that cannot be checked, with the reason.
 * Reads for at most `budget_ns`; 0 = reads nothing. Never fails and changes no file. If the manifest has
 * "refine", "refined" is set, too. Its hosts may be packed. Blocks.
 */
void causality_check(struct store *s, json_t *manifest, int64_t budget_ns);

#endif
