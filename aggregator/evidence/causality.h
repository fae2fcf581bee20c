/* SPDX-License-Identifier: Apache-2.0 */
/* Causality check of a session: its result goes into the manifest. */
#ifndef AGGREGATOR_EVIDENCE_CAUSALITY_H
#define AGGREGATOR_EVIDENCE_CAUSALITY_H

#include <stdint.h>

#include <jansson.h>

struct store;

/* From xs_causality_pack(); len 0: the host has reported none. Borrowed. */
struct causality_report {
	const void *data;
	size_t len;
};

/*
 * Compares the hosts of a manifest that is about to be written, sets its "causality" (docs/wire.md) and, if events run
 * backwards, adds a sentence to its "warnings". Names hosts that cannot be checked, with the reason. `reports` has the
 * hosts' observations, in the order of the manifest's hosts. The files of a host that has reported none are read
 * from the store `s`; with NULL it is not checked. Goes on for at most `budget_ns`; 0 = checks nothing. Never fails and changes no file. If the manifest has
 * "refine", "refined" is set, too. Its hosts may be packed. Blocks.
 */
void causality_check(struct store *s, json_t *manifest, const struct causality_report *reports,
		     int64_t budget_ns);

#endif
