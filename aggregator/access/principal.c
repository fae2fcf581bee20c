/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/principal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"

static const char *const names[N_ROLES] = { "none", "viewer", "operator", "admin" };

const char *role_name(enum role role)
{
	return names[role];
}

int role_parse(enum role *out, const char *name, struct err *e)
{
	for (int i = 0; i < N_ROLES; i++) {
		if (!strcmp(names[i], name)) {
			*out = (enum role)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%.40s' is no role: use viewer, operator or admin", name);
}

struct principal *principal_new(const char *name, const char *how)
{
	struct principal *p = xcalloc(1, sizeof(*p));
	char text[PRINCIPAL_NAME_BYTES];

	clean_text(text, sizeof(text), name, strlen(name));
	*p = (struct principal){ .refs = 1, .name = xstrdup(text), .how = how };
	return p;
}

void principal_grant(struct principal *p, enum role role, const struct spaces *where)
{
	for (int r = ROLE_VIEWER; r <= (int)role; r++)
		spaces_add_all(&p->by_role[r], where);
}

void principal_grant_all(struct principal *p, enum role role)
{
	static const struct spaces all = { .all = true };

	principal_grant(p, role, &all);
}

struct principal *principal_ref(struct principal *p)
{
	p->refs++;
	return p;
}

void principal_unref(struct principal *p)
{
	if (!p || --p->refs)
		return;
	for (int r = 0; r < N_ROLES; r++)
		spaces_release(&p->by_role[r]);
	free(p->name);
	free(p);
}

bool principal_holds(const struct principal *p)
{
	return !p->is_revoked && (!p->until_mono_ns || now_mono_ns() < p->until_mono_ns);
}

const char *principal_owner(const struct principal *p)
{
	return strcmp(p->how, "anonymous") ? p->name : "";
}

enum role principal_role(const struct principal *p)
{
	int role = ROLE_ADMIN;

	while (role > ROLE_NONE && spaces_are_empty(&p->by_role[role]))
		role--;
	return (enum role)role;
}
