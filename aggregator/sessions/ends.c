/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions_impl.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "json/packed.h"

/* Keys that are removed after one look at who owns the session: some stores remove one after the other. */
#define REMOVE_BATCH 100

static const json_t *document_of(const json_t *record)
{
	return json_object_get(json_object_get(record, "end"), "document");
}

const json_t *ledger_hosts(const json_t *record)
{
	const json_t *hosts = json_object_get(record, "hosts");

	return hosts ? hosts : json_object_get(document_of(record), "hosts");
}

/* ---- removal ---- */

/* An end that is being carried out: of the session of `record`. `owner` is NULL until `record` is in the
 * store. */
struct end {
	struct store *store;
	const json_t *record;
	struct ownership *owner;
};

/* Before each change of the store. */
static int check_owner(const struct end *end, struct err *e)
{
	return end->owner ? ownership_check(end->owner, e) : 0;
}

static int remove_keys(const struct end *end, const struct session_keys *keys, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < keys->n && !rc; i += REMOVE_BATCH) {
		size_t left = keys->n - i, n = left < REMOVE_BATCH ? left : REMOVE_BATCH;

		rc = check_owner(end, e);
		if (!rc)
			rc = store_remove_all(end->store, (const char *const *)keys->items + i, n,
					      store_within(STORE_FILE_PATIENCE_NS), e);
	}
	return rc;
}

/* Lists everything before it removes anything: removing during a listing may make the listing wrong. */
static int remove_prefix(const struct end *end, const char *prefix, struct err *e)
{
	struct session_keys found = { 0 };
	int rc = session_list_keys(end->store, prefix, NULL, session_keys_add, &found, e);

	if (!rc)
		rc = remove_keys(end, &found, e);
	session_keys_release(&found);
	return rc;
}

static int remove_files(const struct end *end, struct err *e)
{
	char directory[SESSION_KEY_BYTES];

	session_directory(json_get_text(end->record, "session"), json_get_text(end->record, "run"),
			  directory);
	return remove_prefix(end, directory, e);
}

int session_remove_orphans(struct store *s, const char *session, const char *run, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	bool has_ledger = true;
	int rc = ledger_find(s, session, &has_ledger, e);

	if (rc || has_ledger)
		return rc;
	rc = session_check_no_manifest(s, session, e);
	if (rc)
		return rc == ERR_EXISTS ? 0 : rc;
	session_directory(session, run, key);
	return remove_prefix(&(struct end){ .store = s }, key, e);
}

/* ---- files that the manifest does not name ---- */

/* Finds files of the record's hosts that the manifest does not name. Both objects have names as keys. */
struct unlisted {
	json_t *named; /* the files that the manifest names */
	json_t *hosts; /* ledger_hosts(); NULL = all hosts */
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
	if (!u->hosts || json_object_get(u->hosts, host))
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
	const json_t *hosts = ledger_hosts(record);
	json_t *names = json_object();

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		json_t *host = packed_get(hosts, i);

		json_put_bool(names, json_get_text(host, "host"), true);
		json_decref(host);
	}
	return names;
}

/* Removes files that failed uploads left, because XProf would show them. */
static int remove_unlisted(const struct end *end, const json_t *manifest, struct err *e)
{
	char directory[SESSION_KEY_BYTES];
	struct unlisted u = { .named = names_of_files(manifest),
			      .hosts = names_of_hosts(end->record) };
	int rc;

	session_directory(json_get_text(end->record, "session"), json_get_text(end->record, "run"),
			  directory);
	rc = session_list_keys(end->store, directory, NULL, add_unlisted, &u, e);
	if (!rc)
		rc = remove_keys(end, &u.found, e);
	session_keys_release(&u.found);
	json_decref(u.hosts);
	json_decref(u.named);
	return rc;
}

static void drop_named(struct session_keys *keys, const json_t *named)
{
	size_t n = 0;

	for (size_t i = 0; i < keys->n; i++) {
		if (json_object_get(named, strrchr(keys->items[i], '/') + 1))
			free(keys->items[i]);
		else
			keys->items[n++] = keys->items[i];
	}
	keys->n = n;
}

/* The keys are listed before the ledger is looked for: a retry that begins meanwhile has a ledger before it has
 * files. */
int session_remove_late(struct store *s, const char *session, const char *run, struct err *e)
{
	struct unlisted u = { .named = json_object() };
	char directory[SESSION_KEY_BYTES];
	bool is_under_way = false;
	json_t *manifest = NULL, *named = NULL;
	int rc;

	session_directory(session, run, directory);
	rc = session_list_keys(s, directory, NULL, add_unlisted, &u, e);
	if (!rc && u.found.n)
		rc = ledger_find(s, session, &is_under_way, e);
	if (rc || is_under_way || !u.found.n)
		goto out;
	rc = session_load_manifest(s, session, &manifest, e);
	named = rc ? json_object() : names_of_files(manifest);
	if (rc == ERR_NOT_FOUND)
		rc = session_check_no_manifest(s, session, e);
	if (rc)
		goto out;
	drop_named(&u.found, named);
	if (u.found.n)
		log_warn("AGG-STORE",
			 "session=%s files=%zu first=%s action=remove reason=\"they came late\"",
			 session, u.found.n, u.found.items[0]);
	rc = remove_keys(&(struct end){ .store = s }, &u.found, e);
out:
	session_keys_release(&u.found);
	json_decref(u.named);
	json_decref(named);
	json_decref(manifest);
	return rc;
}

/* ---- a retry that was not committed ---- */

/* Restores the session as it was before the retry. */
static int undo_retry(const struct end *end, struct err *e)
{
	json_t *manifest = NULL;
	int rc = session_load_manifest(end->store, json_get_text(end->record, "session"), &manifest,
				       e);

	if (rc == ERR_NOT_FOUND)
		return 0;
	if (!rc)
		rc = remove_unlisted(end, manifest, e);
	json_decref(manifest);
	return rc;
}

/* ---- the ends ---- */

static bool is_retry(const json_t *record)
{
	return json_get_int(record, "revision") > 1;
}

static bool is_tidy(const json_t *record)
{
	return json_object_get(json_object_get(record, "end"), "tidy") != NULL;
}

/*
 * The first manifest of a session is only created, never replaced: should two aggregators come this far in spite of
 * the ledger, one of them loses. Its own manifest, of an attempt whose answer was lost, is no loss. A retry's manifest
 * replaces the one before.
 */
static int put_manifest(const struct end *end, const json_t *manifest, struct err *e)
{
	const char *session = json_get_text(end->record, "session");
	struct buf there = BUF_INIT, ours = BUF_INIT;
	char key[SESSION_KEY_BYTES];
	int rc;

	session_record_key(session, "manifest.json", key);
	rc = session_put_json(end->store, key, manifest, is_retry(end->record) ? 0 : STORE_ABSENT,
			      e);
	if (rc != ERR_EXISTS)
		return rc;
	rc = session_read_manifest(end->store, session, &there, e);
	packed_write(&ours, manifest);
	if (!rc && strcmp(buf_str(&there), buf_str(&ours)))
		rc = err_set(e, ERR_EXISTS, "another aggregator has committed session %s", session);
	buf_release(&there);
	buf_release(&ours);
	return rc;
}

static int put_index(const struct end *end, const json_t *manifest, struct err *e)
{
	int rc = check_owner(end, e);

	return rc ? rc : session_index_put(end->store, manifest, e);
}

/*
 * Removes files that the manifest does not name, then writes the manifest, then the index entry: what a listing has can
 * be read. After a crash in between the ledger still names the session, and the entry follows. A retry's entry is
 * written before its manifest, and the one that it replaces goes after it: of a session with two entries the
 * manifest tells, so a listing never has an old result beside a new manifest.
 * A file that may not be removed is another owner's, or the bucket keeps all that it has: it stays.
 */
static int commit(const struct end *end, struct err *e)
{
	const char *session = json_get_text(end->record, "session");
	const json_t *manifest = document_of(end->record);
	int rc = is_tidy(end->record) ? 0 : remove_unlisted(end, manifest, e);

	if (rc == ERR_DENIED) {
		log_warn("AGG-STORE", "session=%s action=remove reason=\"%s\"", session, e->msg);
		rc = 0;
	}
	if (!rc && is_retry(end->record))
		rc = put_index(end, manifest, e);
	if (!rc)
		rc = check_owner(end, e);
	if (!rc)
		rc = put_manifest(end, manifest, e);
	if (!rc && is_retry(end->record))
		return session_index_settle(end->store, manifest, e);
	return rc ? rc : put_index(end, manifest, e);
}

/* A first attempt that fails has none. One that is there is of another owner, unknown to this one: that may have
 * been frozen, and think that no record of the session was ever stored. */
static int check_no_manifest(const struct end *end, struct err *e)
{
	const char *session = json_get_text(end->record, "session");
	int rc = session_check_no_manifest(end->store, session, e);

	if (rc == ERR_EXISTS)
		return err_set(e, ERR_EXISTS, "another aggregator has committed session %s",
			       session);
	return rc;
}

static int fail(const struct end *end, struct err *e)
{
	int rc;

	if (is_retry(end->record))
		return undo_retry(end, e);
	rc = check_owner(end, e);
	if (!rc)
		rc = check_no_manifest(end, e);
	if (!rc)
		rc = session_record_failure(end->store, json_get_text(end->record, "session"),
					    document_of(end->record), e);
	return rc ? rc : remove_files(end, e);
}

/* Removes the manifest first: from then on no reader finds the session, whose files are being removed. */
static int delete (const struct end *end, struct err *e)
{
	const char *session = json_get_text(end->record, "session");
	char key[SESSION_KEY_BYTES];
	int rc = check_owner(end, e);

	session_record_key(session, "manifest.json", key);
	if (!rc)
		rc = session_remove_key(end->store, key, e);
	if (!rc)
		rc = remove_files(end, e);
	if (!rc)
		rc = session_index_remove(end->store, session, json_get_text(end->record, "run"),
					  e);
	session_record_key(session, "", key);
	return rc ? rc : remove_prefix(end, key, e);
}

/* A full store cannot take a record with an end: these functions make room by removing first what that end
 * removes anyway. */
static int refuse_room(const struct end *end, struct err *e)
{
	return err_set(e, ERR_FULL, "the store is full, and ending session %s would free no space",
		       json_get_text(end->record, "session"));
}

static int drop_files(const struct end *end, struct err *e)
{
	return is_retry(end->record) ? undo_retry(end, e) : remove_files(end, e);
}

/* A deletion removes the index entry first. If the store still takes nothing, the entry is made again from the
 * manifest. */
static int remove_index_entry(const struct end *end, struct err *e)
{
	return session_index_remove(end->store, json_get_text(end->record, "session"),
				    json_get_text(end->record, "run"), e);
}

static const struct {
	const char *state;
	int (*carry_out)(const struct end *end, struct err *e);
	int (*make_room)(const struct end *end, struct err *e);
} ends[] = {
	{ "committed", commit, refuse_room },
	{ "failed", fail, drop_files },
	{ "cancelled", fail, drop_files },
	{ "deleted", delete, remove_index_entry },
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

static int carry_out(struct store *s, const json_t *record, unsigned int n, bool keeps_ledger,
		     struct err *e)
{
	struct ownership owner = { .store = s, .record = record, .n = n };
	const struct end end = { s, record, &owner };
	size_t i;
	int rc = find_end(record, &i, e);

	if (!rc)
		rc = ends[i].carry_out(&end, e);
	if (!rc && !keeps_ledger)
		rc = ledger_remove(&owner, e);
	if (!owner.is_gone)
		return rc;
	return session_remove_orphans(s, json_get_text(record, "session"),
				      json_get_text(record, "run"), e);
}

int ledger_carry_out(struct store *s, const json_t *record, unsigned int n, struct err *e)
{
	return carry_out(s, record, n, false, e);
}

int ledger_carry_out_early(struct store *s, const json_t *record, unsigned int n, struct err *e)
{
	return carry_out(s, record, n, true, e);
}

/* Removes only files that no manifest names, and index entries: readers miss no file. Removes nothing of a session
 * that another owner may have ended, because its files belong to that owner. */
static int make_room(struct store *s, const json_t *record, unsigned int n, struct err *e)
{
	const char *session = json_get_text(record, "session");
	bool is_there = true;
	size_t i;
	int rc = find_end(record, &i, e);

	if (!rc && n)
		rc = ledger_check(s, record, n, &is_there, e);
	if (!rc && !is_there)
		rc = err_set(e, ERR_EXISTS, "another aggregator has ended session %s", session);
	return rc ? rc : ends[i].make_room(&(struct end){ s, record, NULL }, e);
}

int ledger_put_end(struct store *s, const json_t *record, unsigned int *n, struct err *e)
{
	const char *session = json_get_text(record, "session");
	int rc = ledger_put(s, session, record, n, e);

	if (rc != ERR_FULL)
		return rc;
	rc = make_room(s, record, *n, e);
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

/* Also ends a retry that an earlier run left. */
static int put_deletion(struct store *s, const char *session, const json_t *record, unsigned int *n,
			struct err *e)
{
	json_t *there = NULL;
	int rc;

	*n = 0;
	rc = ledger_load(s, session, &there, n, e);
	json_decref(there);
	if (rc && rc != ERR_NOT_FOUND)
		return rc;
	return ledger_put_end(s, record, n, e);
}

int session_delete(struct store *s, const char *session, bool *begun, struct err *e)
{
	json_t *manifest = NULL, *record;
	unsigned int n;
	int rc = session_load_manifest(s, session, &manifest, e);

	*begun = !rc;
	if (rc)
		return rc;
	record = deletion_of(manifest);
	rc = put_deletion(s, session, record, &n, e);
	if (!rc)
		rc = ledger_carry_out(s, record, n, e);
	json_decref(record);
	json_decref(manifest);
	return rc;
}
