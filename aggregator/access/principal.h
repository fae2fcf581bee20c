/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks: a name, and in which namespaces it has which role. Roles are ordered: who is an operator in a namespace is a
 * viewer there, too. References are counted on the loop's thread; nothing but the count changes after it was made.
 */
#ifndef AGGREGATOR_ACCESS_PRINCIPAL_H
#define AGGREGATOR_ACCESS_PRINCIPAL_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregator/fleet/spaces.h"
#include "base/err.h"

enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN, N_ROLES };

#define PRINCIPAL_NAME_BYTES 400 /* a longer name is cut; an account of Kubernetes has up to 339 */

/* "none", "viewer", "operator", "admin" */
const char *role_name(enum role role);
MUST_CHECK int role_parse(enum role *out, const char *name, struct err *e);

struct principal {
	unsigned int refs;
	char *name; /* for people and logs: "alice"; clean text */
	const char
		*how; /* a constant: "token", "oidc", "kubernetes", "certificate" or "anonymous" */
	struct spaces
		by_role[N_ROLES]; /* where it has this role, or a higher one; none for ROLE_NONE */
	int64_t until_mono_ns; /* what it rests on is to be asked again then; 0 = it holds */
	bool is_revoked; /* what it rests on was taken back */
};

/* Without a role; the caller has the only reference. `how` is a constant. */
struct principal *principal_new(const char *name, const char *how);

/* While no one else has a reference: gives it the role, and those below it, in these namespaces. */
void principal_grant(struct principal *p, enum role role, const struct spaces *where);
void principal_grant_all(struct principal *p, enum role role);

struct principal *principal_ref(struct principal *p);
void principal_unref(struct principal *p); /* NULL is fine */

/* Whether what it rests on still holds, as far as is known. */
bool principal_holds(const struct principal *p);

/* Its name, as owner of what it begins; "" for a caller who showed nothing. Borrowed. */
const char *principal_owner(const struct principal *p);

/* The highest role that it has anywhere. */
enum role principal_role(const struct principal *p);

#endif
