/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an authority's records are: in a file of its folder, or where there are several aggregators in the store that they
 * share, as tutti/enrol/N.json, N with ten digits. The highest N holds. Each save creates the next one and never
 * replaces any, so that a write that a former leader still had in its hands cannot undo a revocation. Private to enrol/.
 * All calls block.
 */
#ifndef AGGREGATOR_ENROL_RECORDS_PLACE_H
#define AGGREGATOR_ENROL_RECORDS_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct store;

struct records_place {
	const char *path; /* of the file */
	struct store *store; /* NULL = the records are in the file */
	uint64_t number; /* of the records that were loaded or saved last; 0 = none */
};

/* Appends the records to `text`; nothing if there are none yet. ERR_INVALID: the store has none, and there is a file that may
 * have some. */
MUST_CHECK int records_place_load(struct records_place *p, struct buf *text, struct err *e);

/* Durable on success. After a failure the records may be saved or not. */
MUST_CHECK int records_place_save(struct records_place *p, const struct buf *text, struct err *e);

#endif
