/* SPDX-License-Identifier: Apache-2.0 */
/* Late files of the sessions that ended last, whoever has waited for them. */
#include <stdio.h>
#include <string.h>

#include "aggregator/sessions/index_line.h"
#include "aggregator/sessions/sessions_impl.h"
#include "base/log.h"
#include "json/json_text.h"
#include "proto/names.h"

struct recent {
	int64_t since_unix_ns;
	struct session_keys sessions;
};

static bool add_committed(void *arg, const char *key, const struct store_stat *st)
{
	struct recent *r = arg;
	char session[SESSION_NAME_BYTES];

	if (st->modified_ns >= r->since_unix_ns && index_line_session(key, session))
		session_keys_add(&r->sessions, session, NULL);
	return true;
}

static bool add_failed(void *arg, const char *key, const struct store_stat *st)
{
	struct recent *r = arg;
	const char *name = key + strlen(FAILED);
	char session[SESSION_NAME_BYTES];
	size_t len = strcspn(name, ".");

	if (st->modified_ns < r->since_unix_ns || len >= sizeof(session))
		return true;
	snprintf(session, sizeof(session), "%.*s", (int)len, name);
	if (name_is_session(session))
		session_keys_add(&r->sessions, session, NULL);
	return true;
}

/* The index tells the session's run, or else the record of its failure. */
static int find_run(struct store *s, const char *session, struct session_line *line, struct err *e)
{
	json_t *record;
	int rc = session_load_line(s, session, line, e);

	if (rc != ERR_NOT_FOUND)
		return rc;
	rc = session_load_failure(s, session, &record, e);
	if (rc)
		return rc;
	snprintf(line->run, sizeof(line->run), "%s", json_get_text(record, "run"));
	json_decref(record);
	return 0;
}

/* Sessions that were deleted meanwhile are left out. */
static int remove_late(struct store *s, const char *session, struct err *e)
{
	struct session_line line;
	int rc = find_run(s, session, &line, e);

	if (rc == ERR_NOT_FOUND)
		return 0;
	if (rc == ERR_INVALID) {
		log_warn("AGG-STORE", "session=%s action=remove-late reason=\"%s\"", session,
			 e->msg);
		return 0;
	}
	return rc ? rc : session_remove_late(s, session, line.run, e);
}

int session_remove_late_since(struct store *s, int64_t unix_ns, struct err *e)
{
	struct recent r = { .since_unix_ns = unix_ns };
	int rc = session_list_keys(s, INDEX, NULL, add_committed, &r, e);

	if (!rc)
		rc = session_list_keys(s, FAILED, NULL, add_failed, &r, e);
	for (size_t i = 0; i < r.sessions.n && !rc; i++)
		rc = remove_late(s, r.sessions.items[i], e);
	session_keys_release(&r.sessions);
	return rc;
}
