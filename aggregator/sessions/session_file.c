/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files of sessions in the store. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions_impl.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "json/packed.h"
#include "proto/names.h"

static int no_such_file(const char *session, const char *file, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "session %s has no file %.100s", session, file);
}

static bool is_file_name(const char *file)
{
	size_t len = strlen(file), suffix = strlen(SESSION_FILE_SUFFIX);

	return len > suffix && !strcmp(file + len - suffix, SESSION_FILE_SUFFIX) &&
	       !name_check_file(file, NULL);
}

static bool host_has_file(const json_t *host, const char *file)
{
	const json_t *files = json_object_get(host, "files");

	for (size_t i = 0; i < json_array_size(files); i++) {
		const char *name = json_string_value(json_array_get(files, i));

		if (name && !strcmp(name, file))
			return true;
	}
	return false;
}

/* Checks that the manifest names the file: during a retry there may be files that it does not name yet. */
static int check_manifest_names(struct store *s, const char *session, const char *file,
				struct err *e)
{
	json_t *manifest;
	bool found = false;
	int rc = session_load_manifest(s, session, &manifest, e);

	if (rc)
		return rc;
	const json_t *hosts = json_object_get(manifest, "hosts");

	for (size_t i = 0; i < json_array_size(hosts) && !found; i++) {
		json_t *host = packed_get(hosts, i);

		found = host_has_file(host, file);
		json_decref(host);
	}
	json_decref(manifest);
	return found ? 0 : no_such_file(session, file, e);
}

/* Only during a retry the manifest is read. */
static int check_may_open(struct store *s, const char *session, const char *file, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	bool is_under_way;
	int rc;

	session_record_key(session, "manifest.json", key);
	rc = store_stat(s, key, store_within(STORE_PATIENCE_NS), NULL, e);
	if (rc == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "there is no session %.64s", session);
	if (!rc)
		rc = ledger_find(s, session, &is_under_way, e);
	return rc || !is_under_way ? rc : check_manifest_names(s, session, file, e);
}

int session_find_file(struct store *s, const char *session, const char *file,
		      struct session_file *out, struct err *e)
{
	struct store_stat st = { 0 };
	struct session_line line;
	int rc;

	*out = (struct session_file){ 0 };
	if (!is_file_name(file))
		return no_such_file(session, file, e);
	rc = check_may_open(s, session, file, e);
	if (!rc)
		rc = session_load_line(s, session, &line, e);
	if (rc)
		return rc;
	session_directory(session, line.run, out->key);
	strncat(out->key, file, sizeof(out->key) - strlen(out->key) - 1);
	rc = store_stat(s, out->key, store_within(STORE_PATIENCE_NS), &st, e);
	out->size = st.size;
	memcpy(out->tag, st.tag, sizeof(out->tag));
	return rc == ERR_NOT_FOUND ? no_such_file(session, file, e) : rc;
}
