/* SPDX-License-Identifier: Apache-2.0 */
/*
 * People who ask a fleet over HTTP, on real sockets: each role in the namespace "red" and in all of them, by a file of
 * tokens, and someone without a token.
 */
#ifndef TESTS_AGGREGATOR_PEOPLE_H
#define TESTS_AGGREGATOR_PEOPLE_H

#include "tests/unit/aggregator/fleet.h"

struct person {
	const char *name; /* his token, too */
	int role; /* 0 none, 1 viewer, 2 operator, 3 admin: as docs/security.md has them, and not as the product does */
	bool is_everywhere; /* not in red only */
};

#define PEOPLE 7
extern const struct person people[PEOPLE];
const struct person *person_named(const char *name);

/* fleet_start() with their tokens and what `set_conf` (may be NULL) sets, and its end. */
void people_start(struct fleet *f, void (*set_conf)(struct aggregator_conf *c));
void people_stop(struct fleet *f);

/* The status; the answer's text goes to `*text` (yours; may be NULL). */
int person_ask(struct fleet *f, const struct person *p, const char *method, const char *path,
	       const char *body, char **text);

#endif
