/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions_impl.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "json/packed.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/limits.h"
#include "proto/names.h"

/* ---- names and keys ---- */

void session_directory(const char *session, const char *run, char out[SESSION_KEY_BYTES])
{
	bool has_run = run && *run;

	snprintf(out, SESSION_KEY_BYTES, "profiles/%s%splugins/profile/%s/", has_run ? run : "",
		 has_run ? "/" : "", session);
}

void session_file_key(const char *session, const char *run, const char *file,
		      char out[SESSION_KEY_BYTES])
{
	size_t used;

	session_directory(session, run, out);
	used = strlen(out);
	snprintf(out + used, SESSION_KEY_BYTES - used, "%s" SESSION_FILE_SUFFIX, file);
}

void session_record_key(const char *session, const char *name, char out[SESSION_KEY_BYTES])
{
	snprintf(out, SESSION_KEY_BYTES, SESSIONS "%s/%s", session, name);
}

/* ---- reading and writing JSON ---- */

int session_put_json(struct store *s, const char *key, const json_t *doc, unsigned int flags,
		     struct err *e)
{
	struct buf text = BUF_INIT;
	int rc;

	packed_write(&text, doc);
	rc = store_put_bytes(s, key, text.data, text.len, flags, store_within(STORE_PATIENCE_NS),
			     e);
	buf_release(&text);
	return rc;
}

static int damaged(const char *key, struct err *e)
{
	return err_set(e, ERR_INVALID, "%s is damaged", key);
}

int session_get_text(struct store *s, const char *key, uint64_t max, struct buf *out, struct err *e)
{
	int rc = store_get_bytes(s, key, max, store_within(STORE_PATIENCE_NS), out, e);

	if (rc && rc != ERR_LIMIT)
		return rc;
	return !rc && json_is_whole(buf_str(out), out->len) ? 0 : damaged(key, e);
}

int session_get_json(struct store *s, const char *key, uint64_t max, json_t **out, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = store_get_bytes(s, key, max, store_within(STORE_PATIENCE_NS), &text, e);

	if (rc && rc != ERR_LIMIT)
		goto out;
	*out = rc ? NULL : packed_read(text.data, text.len);
	rc = *out ? 0 : damaged(key, e);
out:
	buf_release(&text);
	return rc;
}

static int or_no_session(int rc, const char *session, struct err *e)
{
	if (rc == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "there is no session %.64s", session);
	return rc;
}

int session_load_manifest(struct store *s, const char *session, json_t **manifest, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "manifest.json", key);
	return or_no_session(session_get_json(s, key, MANIFEST_BYTES, manifest, e), session, e);
}

int session_check_absent(struct store *s, const char *key, struct err *e)
{
	struct session_keys found = { 0 };
	int rc = store_stat(s, key, store_within(STORE_PATIENCE_NS), NULL, e);

	if (!rc)
		return err_set(e, ERR_EXISTS, "there is %s", key);
	if (rc == ERR_NOT_FOUND)
		rc = session_list_keys(s, key, NULL, session_keys_add, &found, e);
	if (!rc && found.n)
		rc = err_set(e, ERR_PEER, "%s is listed, and the store says that it is missing",
			     key);
	session_keys_release(&found);
	return rc;
}

int session_check_no_manifest(struct store *s, const char *session, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "manifest.json", key);
	return session_check_absent(s, key, e);
}

int session_read_manifest(struct store *s, const char *session, struct buf *text, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "manifest.json", key);
	return or_no_session(session_get_text(s, key, MANIFEST_BYTES, text, e), session, e);
}

/* ---- keys ---- */

bool session_keys_add(void *arg, const char *key, const struct store_stat *st)
{
	struct session_keys *k = arg;

	(void)st;
	k->items = xrealloc(k->items, (k->n + 1) * sizeof(char *));
	k->items[k->n++] = xstrdup(key);
	return true;
}

void session_keys_release(struct session_keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->items[i]);
	free(k->items);
	*k = (struct session_keys){ 0 };
}

int session_list_keys(struct store *s, const char *prefix, const char *after, store_list_fn each,
		      void *arg, struct err *e)
{
	const struct store_list list = { .prefix = prefix,
					 .after = after,
					 .each = each,
					 .arg = arg,
					 .deadline_mono_ns = store_within(STORE_PATIENCE_NS) };

	return store_list(s, &list, e);
}

int session_remove_key(struct store *s, const char *key, struct err *e)
{
	return store_remove(s, key, store_within(STORE_PATIENCE_NS), e);
}
