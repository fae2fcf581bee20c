/* SPDX-License-Identifier: Apache-2.0 */
/* A session's own events as witnesses against its clocks: what is found goes into the manifest. */
#ifndef AGGREGATOR_EVIDENCE_CAUSALITY_H
#define AGGREGATOR_EVIDENCE_CAUSALITY_H

#include <stdint.h>

#include <jansson.h>

struct store;

/*
 * Looks through the stored files of a manifest that is about to be written, sets its "causality"
 * (docs/wire.md) and, if events run backwards, adds a sentence to its "warnings". Hosts that cannot be
 * checked are named with the reason; after `budget_ns` no more is read, 0 = nothing at all. Never
 * fails and changes no file. If "refine" is in the manifest, "refined" comes into it, too. Blocks.
 */
void causality_check(struct store *s, json_t *manifest, int64_t budget_ns);

#endif
