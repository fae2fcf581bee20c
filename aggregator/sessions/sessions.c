/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/sessions_impl.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
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
	char *text = json_dumps(doc, JSON_COMPACT);
	int rc;

	if (!text)
		return err_set(e, ERR_INVALID, "%s cannot be written as JSON", key);
	rc = store_put_bytes(s, key, text, strlen(text), flags, store_within(STORE_PATIENCE_NS), e);
	free(text);
	return rc;
}

int session_get_json(struct store *s, const char *key, uint64_t max, json_t **out, struct err *e)
{
	struct buf text = BUF_INIT;
	json_error_t why;
	int rc = store_get_bytes(s, key, max, store_within(STORE_PATIENCE_NS), &text, e);

	if (rc && rc != ERR_LIMIT)
		goto out;
	*out = rc ? NULL : json_loadb((char *)text.data, text.len, 0, &why);
	rc = 0;
	if (!json_is_object(*out)) {
		json_decref(*out);
		*out = NULL;
		rc = err_set(e, ERR_INVALID, "%s is damaged", key);
	}
out:
	buf_release(&text);
	return rc;
}

int session_create_plan(struct store *s, const char *session, const json_t *plan, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "plan.json", key);
	return session_put_json(s, key, plan, STORE_ABSENT, e);
}

int session_update_plan(struct store *s, const char *session, const json_t *plan, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "plan.json", key);
	return session_put_json(s, key, plan, 0, e);
}

/* The index entry first: the sweep removes one without a manifest, but a session without an entry would stay
 * hidden. */
int session_commit(struct store *s, const char *session, const json_t *manifest, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc = session_index_put(s, session, manifest, e);

	if (rc)
		return rc;
	session_record_key(session, "manifest.json", key);
	return session_put_json(s, key, manifest, STORE_ABSENT, e);
}

int session_load_plan(struct store *s, const char *session, json_t **plan, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "plan.json", key);
	return session_get_json(s, key, MANIFEST_BYTES, plan, e);
}

int session_load_manifest(struct store *s, const char *session, json_t **manifest, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	session_record_key(session, "manifest.json", key);
	rc = session_get_json(s, key, MANIFEST_BYTES, manifest, e);
	if (rc == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "there is no session %.64s", session);
	return rc;
}

/* ---- removal ---- */

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

/* Lists first, then removes: a listing may be wrong if its keys are removed meanwhile. */
static int remove_prefix(struct store *s, const char *prefix, const char *except, struct err *e)
{
	struct session_keys found = { 0 };
	int rc = session_list_keys(s, prefix, NULL, session_keys_add, &found, e);

	for (size_t i = 0; i < found.n && !rc; i++) {
		if (!except || strcmp(found.items[i], except))
			rc = session_remove_key(s, found.items[i], e);
	}
	session_keys_release(&found);
	return rc;
}

/* Recovery ignores such a plan from here on. A full store refuses the write; its objects are removed all the
 * same. */
static void make_unrecoverable(struct store *s, const char *session, const char *run, int64_t t0_ns)
{
	json_t *plan = json_object();
	struct err e;

	json_put_text(plan, "session", session);
	json_put_text(plan, "run", run);
	json_put_int(plan, "t0_ns", t0_ns);
	if (session_update_plan(s, session, plan, &e))
		log_warn("AGG-STORE", "session=%s action=plan reason=\"%s\"", session, e.msg);
	json_decref(plan);
}

int session_remove_files(struct store *s, const char *session, const char *run, struct err *e)
{
	char directory[SESSION_KEY_BYTES];

	session_directory(session, run, directory);
	return remove_prefix(s, directory, NULL, e);
}

/* The plan last: as long as it is there without a manifest, a sweep finishes the removal. */
int session_discard(struct store *s, const char *session, const char *run, int64_t t0_ns,
		    struct err *e)
{
	char key[SESSION_KEY_BYTES], plan[SESSION_KEY_BYTES];
	int rc;

	make_unrecoverable(s, session, run, t0_ns);
	session_record_key(session, "manifest.json", key);
	rc = session_remove_key(s, key, e);
	if (rc)
		return rc;
	rc = session_remove_files(s, session, run, e);
	if (rc)
		return rc;
	rc = session_index_remove(s, session, run ? run : "", e);
	if (rc)
		return rc;
	session_record_key(session, "plan.json", plan);
	session_record_key(session, "", key);
	rc = remove_prefix(s, key, plan, e);
	return rc ? rc : session_remove_key(s, plan, e);
}

int session_delete(struct store *s, const char *session, struct err *e)
{
	json_t *manifest = NULL;
	int rc = session_load_manifest(s, session, &manifest, e);

	if (rc)
		return rc;
	rc = session_discard(s, session, json_get_text(manifest, "run"),
			     json_get_int(manifest, "t0_ns"), e);
	json_decref(manifest);
	return rc;
}

/* ---- retries ---- */

int session_retry_begin(struct store *s, const char *session, const json_t *retry, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "retry.json", key);
	return session_put_json(s, key, retry, 0, e);
}

int session_load_retry(struct store *s, const char *session, json_t **retry, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "retry.json", key);
	return session_get_json(s, key, MANIFEST_BYTES, retry, e);
}

static int remove_retry(struct store *s, const char *session, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, "retry.json", key);
	return session_remove_key(s, key, e);
}

/* The manifest first: the index only repeats parts of it. */
int session_retry_commit(struct store *s, const char *session, const json_t *manifest,
			 struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	session_record_key(session, "manifest.json", key);
	rc = session_put_json(s, key, manifest, 0, e);
	if (!rc)
		rc = session_index_put(s, session, manifest, e);
	return rc ? rc : remove_retry(s, session, e);
}

static bool manifest_has_file(const json_t *manifest, const char *host)
{
	const json_t *hosts = json_object_get(manifest, "hosts");

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		const json_t *h = json_array_get(hosts, i);

		if (!strcmp(json_get_text(h, "host"), host))
			return *json_get_text(h, "file");
	}
	return false;
}

/* All its files, however many there are. */
static int remove_host(struct store *s, const char *session, const char *run, const char *host,
		       struct err *e)
{
	char key[SESSION_KEY_BYTES], directory[SESSION_KEY_BYTES];
	char *more;
	int rc;

	session_directory(session, run, directory);
	more = xasprintf("%s%s~", directory, host);
	session_file_key(session, run, host, key);
	rc = session_remove_key(s, key, e);
	if (!rc)
		rc = remove_prefix(s, more, NULL, e);
	free(more);
	return rc;
}

static int remove_unlisted(struct store *s, const json_t *manifest, const json_t *hosts,
			   struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < json_array_size(hosts) && !rc; i++) {
		const char *host = json_string_value(json_array_get(hosts, i));

		if (!host || manifest_has_file(manifest, host))
			continue;
		rc = remove_host(s, json_get_text(manifest, "session"),
				 json_get_text(manifest, "run"), host, e);
	}
	return rc;
}

/* Also after a crash between the new manifest and the end of the retry. */
int session_retry_undo(struct store *s, const char *session, struct err *e)
{
	json_t *manifest = NULL, *retry = NULL;
	int rc = session_load_retry(s, session, &retry, e);

	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	rc = session_load_manifest(s, session, &manifest, e);
	if (!rc)
		rc = remove_unlisted(s, manifest, json_object_get(retry, "hosts"), e);
	if (!rc)
		rc = session_index_put(s, session, manifest, e);
	if (!rc)
		rc = remove_retry(s, session, e);
	json_decref(manifest);
	json_decref(retry);
	return rc;
}

/* ---- files ---- */

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

/* During a retry there may be files that the manifest does not name yet. */
static int check_manifest_names(struct store *s, const char *session, const char *file,
				struct err *e)
{
	json_t *manifest;
	bool found = false;
	int rc = session_load_manifest(s, session, &manifest, e);

	if (rc)
		return rc;
	const json_t *hosts = json_object_get(manifest, "hosts");

	for (size_t i = 0; i < json_array_size(hosts) && !found; i++)
		found = host_has_file(json_array_get(hosts, i), file);
	json_decref(manifest);
	return found ? 0 : no_such_file(session, file, e);
}

static int has_record(struct store *s, const char *session, const char *name, struct err *e)
{
	char key[SESSION_KEY_BYTES];

	session_record_key(session, name, key);
	return store_stat(s, key, store_within(STORE_PATIENCE_NS), NULL, e);
}

static int check_may_open(struct store *s, const char *session, const char *file, struct err *e)
{
	int rc = has_record(s, session, "manifest.json", e);

	if (rc == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "there is no session %.64s", session);
	if (rc)
		return rc;
	rc = has_record(s, session, "retry.json", e);
	if (rc == ERR_NOT_FOUND)
		return 0;
	return rc ? rc : check_manifest_names(s, session, file, e);
}

int session_open_file(struct store *s, const char *session, const char *file, int *fd,
		      uint64_t *size, struct err *e)
{
	char directory[SESSION_KEY_BYTES];
	json_t *summary;
	char *key;
	int rc;

	if (!is_file_name(file))
		return no_such_file(session, file, e);
	rc = check_may_open(s, session, file, e);
	if (!rc)
		rc = session_load_summary(s, session, &summary, e);
	if (rc)
		return rc;
	session_directory(session, json_get_text(summary, "run"), directory);
	key = xasprintf("%s%s", directory, file);
	rc = store_open_fd(s, key, store_within(STORE_PATIENCE_NS), fd, size, e);
	free(key);
	json_decref(summary);
	return rc == ERR_NOT_FOUND ? no_such_file(session, file, e) : rc;
}
