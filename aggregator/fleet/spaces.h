/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of namespaces: those of a session, or those in which a caller may do something. The namespace of a pod is
 * Kubernetes' own; a host outside of a cluster has the value of its label `namespace`. Pure.
 */
#ifndef AGGREGATOR_FLEET_SPACES_H
#define AGGREGATOR_FLEET_SPACES_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"

#define SPACES_MOST	  4096 /* names in one set */
#define SPACES_NAME_BYTES 254 /* of one name, with its NUL */

/* Zeroed is the empty set. */
struct spaces {
	bool all; /* every namespace, and what has none: `names` is empty */
	char **names; /* sorted, none twice; owned */
	size_t n;
};

/* False, and nothing is added: it is no namespace's name, or there are SPACES_MOST. What is of that namespace, too, must then
 * not be taken for what is of the others alone. */
MUST_CHECK bool spaces_add(struct spaces *s, const char *name);
void spaces_add_all(struct spaces *s, const struct spaces *more);
void spaces_copy(struct spaces *out, const struct spaces *from);
void spaces_release(struct spaces *s); /* empty then */

bool spaces_are_empty(const struct spaces *s);
bool spaces_have(const struct spaces *s, const char *name);

/* Whether `inner` lies in `s`. The empty set lies only in `all`: what has no namespace belongs to the whole fleet. */
bool spaces_cover(const struct spaces *s, const struct spaces *inner);
bool spaces_equal(const struct spaces *a, const struct spaces *b);

/* "a,b", or "*" for all. ERR_INVALID for an empty name or one with characters that no namespace has, ERR_LIMIT beyond
 * the limits. `out` is released by the caller, after a failure, too. */
MUST_CHECK int spaces_parse(struct spaces *out, const char *text, struct err *e);

/* An array of names; a new reference. A document with anything that is no name gives the empty set: the whole fleet's. */
json_t *spaces_json(const struct spaces *s);
void spaces_read(struct spaces *out, const json_t *array);

#endif
