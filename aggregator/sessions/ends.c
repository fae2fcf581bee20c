/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions_impl.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "json/packed.h"

/* ---- removal ---- */

/* Lists first, then removes: a listing may be wrong if its keys are removed meanwhile. */
static int remove_prefix(struct store *s, const char *prefix, struct err *e)
{
	struct session_keys found = { 0 };
	int rc = session_list_keys(s, prefix, NULL, session_keys_add, &found, e);

	for (size_t i = 0; i < found.n && !rc; i++)
		rc = session_remove_key(s, found.items[i], e);
	session_keys_release(&found);
	return rc;
}

static int remove_files(struct store *s, const json_t *record, struct err *e)
{
	char directory[SESSION_KEY_BYTES];

	session_directory(json_get_text(record, "session"), json_get_text(record, "run"),
			  directory);
	return remove_prefix(s, directory, e);
}

int session_remove_orphans(struct store *s, const char *session, const char *run, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	bool has_ledger = true;
	int rc = ledger_find(s, session, &has_ledger, e);

	if (rc || has_ledger)
		return rc;
	session_record_key(session, "manifest.json", key);
	rc = store_stat(s, key, store_within(STORE_PATIENCE_NS), NULL, e);
	if (rc != ERR_NOT_FOUND)
		return rc;
	session_directory(session, run, key);
	return remove_prefix(s, key, e);
}

/* ---- files that the manifest does not name ---- */

/* Names are keys of the objects. */
struct unlisted {
	json_t *named; /* files of the manifest */
	json_t *hosts; /* of the record */
	struct session_keys found; /* files of these hosts that are not named */
};

/* For store_list(). XProf's caches have other suffixes. */
static bool add_unlisted(void *arg, const char *key, const struct store_stat *st)
{
	struct unlisted *u = arg;
	const char *name = strrchr(key, '/') + 1;
	const char *suffix = strstr(name, SESSION_FILE_SUFFIX);
	size_t len;
	char *host;

	if (!suffix || suffix[strlen(SESSION_FILE_SUFFIX)] || json_object_get(u->named, name))
		return true;
	len = strcspn(name, "~");
	host = xstrndup(name, len < (size_t)(suffix - name) ? len : (size_t)(suffix - name));
	if (json_object_get(u->hosts, host))
		session_keys_add(&u->found, key, st);
	free(host);
	return true;
}

static json_t *names_of_files(const json_t *manifest)
{
	const json_t *hosts = json_object_get(manifest, "hosts");
	json_t *names = json_object();

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		json_t *result = packed_get(hosts, i);
		const json_t *files = json_object_get(result, "files");

		for (size_t k = 0; k < json_array_size(files); k++)
			json_put_bool(names, json_string_value(json_array_get(files, k)), true);
		json_put_bool(names, json_get_text(result, "file"), true);
		json_decref(result);
	}
	return names;
}

static json_t *names_of_hosts(const json_t *record)
{
	const json_t *hosts = json_object_get(record, "hosts");
	json_t *names = json_object();

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		json_t *host = packed_get(hosts, i);

		json_put_bool(names, json_get_text(host, "host"), true);
		json_decref(host);
	}
	return names;
}

/* Left by uploads that failed, and XProf would show them. */
static int remove_unlisted(struct store *s, const json_t *manifest, const json_t *record,
			   struct err *e)
{
	char directory[SESSION_KEY_BYTES];
	struct unlisted u = { .named = names_of_files(manifest), .hosts = names_of_hosts(record) };
	int rc;

	session_directory(json_get_text(record, "session"), json_get_text(record, "run"),
			  directory);
	rc = session_list_keys(s, directory, NULL, add_unlisted, &u, e);
	for (size_t i = 0; i < u.found.n && !rc; i++)
		rc = session_remove_key(s, u.found.items[i], e);
	session_keys_release(&u.found);
	json_decref(u.hosts);
	json_decref(u.named);
	return rc;
}

/* ---- a retry that was not committed ---- */

/* The session is as it was before the retry. */
static int undo_retry(struct store *s, const json_t *record, struct err *e)
{
	json_t *manifest = NULL;
	int rc = session_load_manifest(s, json_get_text(record, "session"), &manifest, e);

	if (!rc)
		rc = remove_unlisted(s, manifest, record, e);
	json_decref(manifest);
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

/* ---- the ends ---- */

static bool is_retry(const json_t *record)
{
	return json_get_int(record, "revision") > 1;
}

static const json_t *document_of(const json_t *record)
{
	return json_object_get(json_object_get(record, "end"), "document");
}

/* Files that no upload has confirmed are removed before readers come. The index entry first: one without a manifest is removed together with the ledger that names it, but a session
 * without an entry would stay hidden. */
static int commit(struct store *s, const json_t *record, struct err *e)
{
	const char *session = json_get_text(record, "session");
	const json_t *manifest = document_of(record);
	char key[SESSION_KEY_BYTES];
	int rc = remove_unlisted(s, manifest, record, e);

	if (!rc)
		rc = session_index_put(s, session, manifest, e);
	session_record_key(session, "manifest.json", key);
	return rc ? rc : session_put_json(s, key, manifest, 0, e);
}

static int fail(struct store *s, const json_t *record, struct err *e)
{
	int rc;

	if (is_retry(record))
		return undo_retry(s, record, e);
	rc = session_record_failure(s, json_get_text(record, "session"), document_of(record), e);
	return rc ? rc : remove_files(s, record, e);
}

/* The manifest first: what it names is no longer whole. */
static int delete (struct store *s, const json_t *record, struct err *e)
{
	const char *session = json_get_text(record, "session");
	char key[SESSION_KEY_BYTES];
	int rc;

	session_record_key(session, "manifest.json", key);
	rc = session_remove_key(s, key, e);
	if (!rc)
		rc = remove_files(s, record, e);
	if (!rc)
		rc = session_index_remove(s, session, json_get_text(record, "run"), e);
	session_record_key(session, "", key);
	return rc ? rc : remove_prefix(s, key, e);
}

/* Before a record with that end is stored in a full store: removes what the end drops anyway. */
static int make_no_room(struct store *s, const json_t *record, struct err *e)
{
	(void)s;
	return err_set(e, ERR_FULL, "the store is full, and session %s drops nothing",
		       json_get_text(record, "session"));
}

static int drop_files(struct store *s, const json_t *record, struct err *e)
{
	return is_retry(record) ? undo_retry(s, record, e) : remove_files(s, record, e);
}

/* The entry is made anew from the manifest if the store takes nothing more. */
static int drop_index(struct store *s, const json_t *record, struct err *e)
{
	return session_index_remove(s, json_get_text(record, "session"),
				    json_get_text(record, "run"), e);
}

static const struct {
	const char *state;
	int (*carry_out)(struct store *s, const json_t *record, struct err *e);
	int (*make_room)(struct store *s, const json_t *record, struct err *e);
} ends[] = {
	{ "committed", commit, make_no_room },
	{ "failed", fail, drop_files },
	{ "cancelled", fail, drop_files },
	{ "deleted", delete, drop_index },
};

static int find_end(const json_t *record, size_t *i, struct err *e)
{
	const char *state = json_get_text(json_object_get(record, "end"), "state");

	for (*i = 0; *i < ARRAY_SIZE(ends); (*i)++) {
		if (!strcmp(ends[*i].state, state))
			return 0;
	}
	return err_set(e, ERR_UNSUPPORTED, "the ledger of session %s has an unknown end '%.20s'",
		       json_get_text(record, "session"), state);
}

bool ledger_has_end(const json_t *record)
{
	return json_object_get(record, "end") != NULL;
}

bool ledger_end_removes_files(const json_t *record)
{
	return strcmp(json_get_text(json_object_get(record, "end"), "state"), "committed") != 0;
}

int ledger_carry_out(struct store *s, const json_t *record, struct err *e)
{
	size_t i;
	int rc = find_end(record, &i, e);

	if (!rc)
		rc = ends[i].carry_out(s, record, e);
	return rc ? rc : ledger_remove(s, json_get_text(record, "session"), e);
}

/* Removes files only of what has no manifest, or that the manifest does not name: readers do not see them. */
static int make_room(struct store *s, const json_t *record, struct err *e)
{
	size_t i;
	int rc = find_end(record, &i, e);

	return rc ? rc : ends[i].make_room(s, record, e);
}

int ledger_put_end(struct store *s, const json_t *record, unsigned int *n, struct err *e)
{
	const char *session = json_get_text(record, "session");
	int rc = ledger_put(s, session, record, n, e);

	if (rc != ERR_FULL)
		return rc;
	rc = make_room(s, record, e);
	return rc ? rc : ledger_put(s, session, record, n, e);
}

/* ---- deletion ---- */

static json_t *deletion_of(const json_t *manifest)
{
	json_t *record = json_object(), *end = json_object();

	json_put_int(record, "version", LEDGER_VERSION);
	json_put_text(record, "session", json_get_text(manifest, "session"));
	json_put_text(record, "run", json_get_text(manifest, "run"));
	json_put_text(end, "state", "deleted");
	json_put(record, "end", end);
	return record;
}

/* A retry that an earlier run left ends here. */
static int put_deletion(struct store *s, const char *session, const json_t *record, struct err *e)
{
	json_t *there = NULL;
	unsigned int n = 0;
	int rc = ledger_load(s, session, &there, &n, e);

	json_decref(there);
	if (rc && rc != ERR_NOT_FOUND)
		return rc;
	return ledger_put_end(s, record, &n, e);
}

int session_delete(struct store *s, const char *session, bool *begun, struct err *e)
{
	json_t *manifest = NULL, *record;
	int rc = session_load_manifest(s, session, &manifest, e);

	*begun = !rc;
	if (rc)
		return rc;
	record = deletion_of(manifest);
	rc = put_deletion(s, session, record, e);
	if (!rc)
		rc = ledger_carry_out(s, record, e);
	json_decref(record);
	json_decref(manifest);
	return rc;
}
