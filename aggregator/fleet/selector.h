/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language that names the hosts of a capture (docs/selectors.md), parsed to a struct:
 *
 *	all
 *	host-1,host-2,tpu-*             any of these names
 *	job=train,rank=0-7,!node=n17    all of these terms
 *	app in (a,b),zone!=x            a label with one of several values, and another without one
 *
 * Names and values may be globs, with '*' and '?'. Pure.
 */
#ifndef AGGREGATOR_FLEET_SELECTOR_H
#define AGGREGATOR_FLEET_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SELECTOR_VALUES	      4096 /* names and values of one selector */
#define SELECTOR_WORK	      (16 << 20) /* bytes of patterns, and 32 for each term, times hosts and pods */
#define SELECTOR_VALUE_BYTES  256
#define SELECTOR_PREFIX_BYTES 253 /* of a label's key, before the '/', as in Kubernetes */
#define SELECTOR_KEY_BYTES    63 /* of a label's key, without a prefix */

/* What a term is about: a label, or one of the keys with a meaning of their own. */
enum selector_key {
	SELECTOR_LABEL,
	SELECTOR_POD,
	SELECTOR_NAMESPACE,
	SELECTOR_JOB,
	SELECTOR_RANK,
	SELECTOR_NODE,
};

struct selector_value {
	const char *text; /* in the selector's own copy of its text */
	bool is_glob;
	int64_t from, to; /* of a rank: both included */
};

struct selector_values {
	struct selector_value *items; /* those that are no globs come first, sorted by text */
	size_t n, n_exact;
};

/* True of what has one of the values; if negative, of everything else. */
struct selector_term {
	enum selector_key key;
	const char *label; /* the key as it was written */
	bool is_negative;
	struct selector_values values;
};

struct selector {
	char *text; /* owned, as everything below */
	struct selector_values names; /* the host has one of these; empty = any host */
	struct selector_values without; /* and none of these */
	struct selector_term *terms; /* and all of these are true */
	size_t n_terms;
	size_t pattern_bytes; /* of all values with '*' or '?' */
};

/* What is matched: a host, or a pod on it. */
struct selector_subject {
	const char *host; /* its name */

	/* The value of a key, borrowed; NULL if it has none. `label` is the key as it was written. */
	const char *(*get)(const void *arg, enum selector_key key, const char *label);
	const void *arg;
};

/* ERR_INVALID or ERR_LIMIT with the character where the text is wrong, counted from 1. The caller releases *out with
 * selector_release(), after a failure, too. */
MUST_CHECK int selector_parse(struct selector *out, const char *text, struct err *e);
void selector_release(struct selector *s);

/*
 * Whether so many hosts and pods may be matched in one turn of the loop. A pattern such as "*????????z" takes the more
 * steps the longer it is, and a term looks through the labels of each: whoever may read could stop the loop for half a
 * minute. ERR_INVALID beyond SELECTOR_WORK, which is half a second at worst; it says nothing of how many there are.
 */
MUST_CHECK int selector_check_work(const struct selector *s, size_t n_subjects, struct err *e);

bool selector_matches(const struct selector *s, const struct selector_subject *subject);

/* The same of one subject after the other in the order of their hosts' names; a zeroed walk for the first. To look for
 * each of 10,000 hosts in a list of 4,000 names takes 3 ms. */
struct selector_walk {
	size_t name, without; /* the places in the selector's lists */
};
bool selector_matches_next(const struct selector *s, const struct selector_subject *subject,
			   struct selector_walk *walk);

/* Whether the pattern, which may have '*' and '?', is all of the text. */
bool selector_glob_matches(const char *pattern, const char *text);

#endif
