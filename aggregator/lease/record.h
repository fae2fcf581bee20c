/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of terms in the store: tutti/leader/TERM.json (schema leader), TERM with ten digits. A record is created
 * once, by a create-only put, and replaced by its holder alone. All calls block.
 */
#ifndef AGGREGATOR_LEASE_RECORD_H
#define AGGREGATOR_LEASE_RECORD_H

#include <stdint.h>

#include <jansson.h>

#include "aggregator/lease/lease.h"
#include "base/err.h"

struct store;

#define LEADER_TERM_MAX UINT64_C(9999999999)

/* The record of the highest term. `*document` is a new reference, or NULL if there is none; of a record that cannot be
 * read `view` has the term only. */
MUST_CHECK int record_read(struct store *s, int64_t deadline_mono_ns, struct lease_view *view,
			   json_t **document, struct err *e);

struct record {
	uint64_t term, beat;
	const char *replica; /* the holder's name */
	const char *url; /* where its HTTP is reached; "" = it does not say */
	const json_t *clock; /* its session clock (schema session-clock); NULL = not known yet */
	bool released;
};

/* ERR_EXISTS: another replica has created it. */
MUST_CHECK int record_create(struct store *s, const struct record *r, int64_t deadline_mono_ns,
			     struct err *e);
MUST_CHECK int record_replace(struct store *s, const struct record *r, int64_t deadline_mono_ns,
			      struct err *e);

/* Removes the records of terms before this one. */
MUST_CHECK int record_remove_before(struct store *s, uint64_t term, int64_t deadline_mono_ns,
				    struct err *e);

#endif
