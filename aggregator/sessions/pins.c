/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/pins.h"
#include "aggregator/sessions/sessions_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/names.h"

#define PINS "tutti/pins/"

static void pin_key(const char *session, char out[SESSION_KEY_BYTES])
{
	snprintf(out, SESSION_KEY_BYTES, PINS "%s", session);
}

static int check_exists(struct store *s, const char *session, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	session_record_key(session, "manifest.json", key);
	rc = store_stat(s, key, store_within(STORE_PATIENCE_NS), NULL, e);
	return rc == ERR_NOT_FOUND ? err_set(e, ERR_NOT_FOUND, "there is no session %.64s", session)
				   : rc;
}

int session_pin(struct store *s, const char *session, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc = check_exists(s, session, e);

	if (rc)
		return rc;
	pin_key(session, key);
	return store_put_bytes(s, key, "{}", 2, 0, store_within(STORE_PATIENCE_NS), e);
}

int session_unpin(struct store *s, const char *session, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc = check_exists(s, session, e);

	pin_key(session, key);
	return rc ? rc : session_remove_key(s, key, e);
}

int session_is_pinned(struct store *s, const char *session, bool *is_pinned, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	pin_key(session, key);
	rc = session_check_absent(s, key, e);
	*is_pinned = rc == ERR_EXISTS;
	return *is_pinned ? 0 : rc;
}

/* In the order of the keys, which is that of the names. */
static bool add_pin(void *arg, const char *key, const struct store_stat *st)
{
	const char *session = key + strlen(PINS);

	return name_is_session(session) ? session_keys_add(arg, session, st) : true;
}

int session_list_pins(struct store *s, struct session_keys *names, struct err *e)
{
	return session_list_keys(s, PINS, NULL, add_pin, names, e);
}

static int compare_name(const void *name, const void *item)
{
	return strcmp(name, *(char *const *)item);
}

bool session_keys_have(const struct session_keys *names, const char *session)
{
	return names->n && bsearch(session, names->items, names->n, sizeof(char *), compare_name);
}
