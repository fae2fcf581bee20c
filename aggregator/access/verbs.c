/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/verbs.h"

#include <string.h>

/* name, object, lowest role, lowest role of the owner, audited */
const struct verb verb_public = { "public", VERB_PUBLIC, ROLE_NONE, ROLE_NONE, false };
const struct verb verb_login = { "login", VERB_PUBLIC, ROLE_NONE, ROLE_NONE, false };
const struct verb verb_logout = { "logout", VERB_PUBLIC, ROLE_NONE, ROLE_NONE, false };
const struct verb verb_whoami = { "whoami", VERB_OWN_PART, ROLE_VIEWER, ROLE_NONE, false };
const struct verb verb_list = { "list", VERB_OWN_PART, ROLE_VIEWER, ROLE_NONE, false };
const struct verb verb_watch = { "watch", VERB_OWN_PART, ROLE_VIEWER, ROLE_NONE, false };
const struct verb verb_metrics = { "metrics", VERB_FLEET, ROLE_VIEWER, ROLE_NONE, false };
const struct verb verb_read = { "read", VERB_SESSION, ROLE_VIEWER, ROLE_NONE, false };
const struct verb verb_start = { "start", VERB_OWN_PART, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_snapshot = { "snapshot", VERB_OWN_PART, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_stop = { "stop", VERB_SESSION, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_cancel = { "cancel", VERB_SESSION, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_retry = { "retry", VERB_SESSION, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_pin = { "pin", VERB_SESSION, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_share = { "share", VERB_SESSION, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_delete = { "delete", VERB_SESSION, ROLE_ADMIN, ROLE_OPERATOR, true };
const struct verb verb_import = { "import", VERB_FLEET, ROLE_OPERATOR, ROLE_NONE, true };
const struct verb verb_enrol = { "enrol", VERB_FLEET, ROLE_ADMIN, ROLE_NONE, true };
const struct verb verb_revoke = { "revoke", VERB_FLEET, ROLE_ADMIN, ROLE_NONE, true };

static enum access_answer decide_session(const struct principal *p, const struct verb *v,
					 const struct session_marks *marks)
{
	bool is_owner = marks && *marks->owner && !strcmp(marks->owner, p->name);

	if (p->by_role[v->role].all)
		return ACCESS_GRANTED;
	if (!marks)
		return ACCESS_NEEDS_MARKS;
	if (!spaces_cover(&p->by_role[ROLE_VIEWER], marks->spaces))
		return ACCESS_HIDDEN;
	if (spaces_cover(&p->by_role[v->role], marks->spaces))
		return ACCESS_GRANTED;
	if (is_owner && v->owner_role && spaces_cover(&p->by_role[v->owner_role], marks->spaces))
		return ACCESS_GRANTED;
	return ACCESS_FORBIDDEN;
}

enum access_answer access_decide(const struct principal *p, const struct verb *v,
				 const struct session_marks *marks)
{
	const struct spaces *where = &p->by_role[v->role];

	switch (v->object) {
	case VERB_PUBLIC:
		return ACCESS_GRANTED;
	case VERB_OWN_PART:
		return spaces_are_empty(where) ? ACCESS_FORBIDDEN : ACCESS_GRANTED;
	case VERB_FLEET:
		return where->all ? ACCESS_GRANTED : ACCESS_FORBIDDEN;
	case VERB_SESSION:
		/* who sees nothing at all is told so, whether or not there is such a session */
		if (spaces_are_empty(&p->by_role[ROLE_VIEWER]))
			return ACCESS_FORBIDDEN;
		return decide_session(p, v, marks);
	}
	return ACCESS_FORBIDDEN;
}
