/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked of the aggregator, and who may ask for it. docs/security.md has the same table, and a test tries all
 * of its cells. Pure.
 */
#ifndef AGGREGATOR_ACCESS_VERBS_H
#define AGGREGATOR_ACCESS_VERBS_H

#include <stdbool.h>

#include "aggregator/access/principal.h"

/* What a verb is about. */
enum verb_object {
	VERB_PUBLIC, /* anybody may ask for it: it says nothing of the fleet */
	VERB_OWN_PART, /* whatever the caller may see of the fleet */
	VERB_SESSION, /* one capture or session */
	VERB_FLEET, /* the fleet as a whole: the role is needed everywhere */
};

struct verb {
	const char *name; /* as docs/security.md and the audit log have it */
	enum verb_object object;
	enum role role; /* the lowest that may */
	enum role
		owner_role; /* the lowest that may with what it began itself; ROLE_NONE = as above */
	bool is_audited; /* the audit log has it before it is done */
};

extern const struct verb verb_public, verb_whoami, verb_login, verb_logout;
extern const struct verb verb_list, verb_watch, verb_metrics, verb_read;
extern const struct verb verb_start, verb_snapshot, verb_stop, verb_cancel, verb_retry;
extern const struct verb verb_pin, verb_share, verb_delete, verb_import;
extern const struct verb verb_enrol, verb_revoke;

/* Of a session, or a capture under way. */
struct session_marks {
	const char *owner; /* the name of who began it; "" = not known */
	const struct spaces *spaces; /* its namespaces; empty = the whole fleet's */
};

enum access_answer {
	ACCESS_GRANTED,
	ACCESS_FORBIDDEN, /* it sees the object, and may not do this */
	ACCESS_HIDDEN, /* for this caller there is no such object */
	ACCESS_NEEDS_MARKS, /* ask again with the object's marks */
};

/* `marks` are for VERB_SESSION alone; NULL = not read yet, since the answer may not depend on them. */
enum access_answer access_decide(const struct principal *p, const struct verb *v,
				 const struct session_marks *marks);

#endif
