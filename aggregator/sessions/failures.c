/* SPDX-License-Identifier: Apache-2.0 */
/* Records of failed captures. */
#include "aggregator/sessions/sessions_impl.h"

#include <stdio.h>

#define FAILED_KEPT 256

static void failed_key(const char *session, char out[SESSION_KEY_BYTES])
{
	snprintf(out, SESSION_KEY_BYTES, FAILED "%s.json", session);
}

/* Removes the oldest records: session names begin with the time, so they come first. */
static int remove_oldest(struct store *s, struct err *e)
{
	struct session_keys found = { 0 };
	int rc = session_list_keys(s, FAILED, NULL, session_keys_add, &found, e);

	for (size_t i = 0; i + FAILED_KEPT < found.n && !rc; i++)
		rc = session_remove_key(s, found.items[i], e);
	session_keys_release(&found);
	return rc;
}

int session_record_failure(struct store *s, const char *session, const json_t *record,
			   struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	failed_key(session, key);
	rc = session_put_json(s, key, record, 0, e);
	return rc ? rc : remove_oldest(s, e);
}

static int or_no_capture(int rc, const char *session, struct err *e)
{
	if (rc == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "there is no capture %.64s", session);
	return rc;
}

int session_load_failure(struct store *s, const char *session, json_t **record, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	failed_key(session, key);
	return or_no_capture(session_get_json(s, key, MANIFEST_BYTES, record, e), session, e);
}

int session_read_failure(struct store *s, const char *session, struct buf *text, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	failed_key(session, key);
	return or_no_capture(session_get_text(s, key, MANIFEST_BYTES, text, e), session, e);
}
