/* SPDX-License-Identifier: Apache-2.0 */
/* What a crash left of a session: brought to its end, or handed out to be carried on. */
#include <string.h>

#include "aggregator/sessions/ends.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions_impl.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"

#define EPOCH_MAX 1000000000

/* ---- the files ---- */

static bool add_stored(void *arg, const char *key, const struct store_stat *st)
{
	const char *name = strrchr(key, '/') + 1;
	size_t len = strlen(name), suffix = strlen(SESSION_FILE_SUFFIX);

	if (len > suffix && !strcmp(name + len - suffix, SESSION_FILE_SUFFIX))
		json_object_set_new((json_t *)arg, name, json_integer((json_int_t)st->size));
	return true;
}

/* Removes the files of hosts whose uploads were not complete: XProf would show them. The first file is stored
 * last, so it is missing then. */
static int remove_incomplete(struct store *s, const char *directory, json_t *stored, struct err *e)
{
	const char *name;
	json_t *size;
	void *next;
	int rc = 0;

	json_object_foreach_safe(stored, next, name, size)
	{
		char *key = xasprintf("%s%s", directory, name);
		char *first = xasprintf("%.*s" SESSION_FILE_SUFFIX, (int)strcspn(name, "~"), name);

		if (strchr(name, '~') && !json_object_get(stored, first)) {
			rc = session_remove_key(s, key, e);
			json_object_del(stored, name);
		}
		free(first);
		free(key);
		if (rc)
			break;
	}
	return rc;
}

static int list_stored(struct store *s, const json_t *record, json_t *stored, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	session_directory(json_get_text(record, "session"), json_get_text(record, "run"), key);
	rc = session_list_keys(s, key, NULL, add_stored, stored, e);
	return rc ? rc : remove_incomplete(s, key, stored, e);
}

/* ---- ends that the record does not name ---- */

static json_t *end_json(const char *state, json_t *document)
{
	json_t *end = json_object();

	json_put_text(end, "state", state);
	if (document)
		json_put(end, "document", json_incref(document));
	return end;
}

static bool is_deletion(const json_t *record)
{
	return !strcmp(json_get_text(json_object_get(record, "end"), "state"), "deleted");
}

/*
 * A record may be of a session that has ended otherwise than it says: the store may carry out a put long after its caller gave
 * up, and an owner that was frozen, and then killed, may have put its record when another one had ended the session and
 * removed the ledger. Only ends that are carried out leave a manifest or a failure's record: these tell how the session
 * ended. `*manifest` becomes the session's manifest, or NULL.
 */
static int find_end(struct store *s, json_t *record, json_t **manifest, struct err *e)
{
	const char *session = json_get_text(record, "session");
	int64_t revision = json_get_int(record, "revision");
	json_t *failure = NULL;
	int rc = session_load_manifest(s, session, manifest, e);

	if (!rc && json_get_int(*manifest, "revision") >= revision)
		json_put(record, "end", end_json("committed", *manifest));
	if (rc != ERR_NOT_FOUND)
		return rc;
	if (revision > 1) {
		json_put(record, "end", end_json("deleted", NULL));
		return 0;
	}
	rc = session_load_failure(s, session, &failure, e);
	if (!rc)
		json_put(record, "end", end_json("failed", failure));
	json_decref(failure);
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

/* ---- a session ---- */

int session_check_owner(struct store *s, const char *session, const char *nonce, struct err *e)
{
	json_t *record = NULL;
	unsigned int n;
	bool is_ours;
	int rc = ledger_load(s, session, &record, &n, e);

	if (rc)
		return rc;
	is_ours = !strcmp(json_get_text(json_object_get(record, "owner"), "nonce"), nonce);
	json_decref(record);
	return is_ours ? 0 : err_set(e, ERR_EXISTS, "another aggregator owns session %s", session);
}

static int finish(struct store *s, const json_t *record, unsigned int n, struct err *e)
{
	int rc = ledger_carry_out(s, record, n, e);

	if (!rc)
		log_warn("AGG-SWEPT", "session=%s run=\"%s\" end=%s",
			 json_get_text(record, "session"), json_get_text(record, "run"),
			 json_get_text(json_object_get(record, "end"), "state"));
	return rc;
}

static int hand_out(struct store *s, json_t *record, unsigned int n, json_t *manifest, json_t **out,
		    struct err *e)
{
	json_t *stored = json_object();
	int rc = list_stored(s, record, stored, e);

	if (rc) {
		json_decref(stored);
		return rc;
	}
	*out = json_object();
	json_put(*out, "record", json_incref(record));
	json_put_int(*out, "ledger", n);
	json_put(*out, "stored", stored);
	if (manifest)
		json_put(*out, "manifest", json_incref(manifest));
	return 0;
}

static int check_plan(const json_t *record, struct err *e)
{
	const json_t *owner = json_object_get(record, "owner");
	int64_t epoch = json_get_int(owner, "epoch");
	int rc = session_check_plan(json_object_get(record, "plan"),
				    json_object_get(record, "hosts"), e);

	if (!rc && (epoch < 0 || epoch > EPOCH_MAX))
		rc = err_set(e, ERR_INVALID, "the owner's epoch is out of range");
	if (rc)
		err_prefix(e, "the ledger of session %s", json_get_text(record, "session"));
	return rc;
}

static int check_record(const char *session, const json_t *record, struct err *e)
{
	if (strcmp(json_get_text(record, "session"), session))
		return err_set(e, ERR_INVALID, "the ledger of session %s is of another session",
			       session);
	if (!ledger_has_end(record) && !json_is_object(json_object_get(record, "plan")))
		return err_set(e, ERR_INVALID, "the ledger of session %s has no plan", session);
	return ledger_has_end(record) ? 0 : check_plan(record, e);
}

int session_recover(struct store *s, const char *session, json_t **out, struct err *e)
{
	json_t *record = NULL, *manifest = NULL;
	bool had_end;
	unsigned int n;
	int rc = ledger_load(s, session, &record, &n, e);

	*out = NULL;
	if (rc == ERR_NOT_FOUND)
		return 0;
	if (!rc)
		rc = check_record(session, record, e);
	had_end = ledger_has_end(record);
	if (!rc && !is_deletion(record)) {
		rc = find_end(s, record, &manifest, e);
		if (rc == ERR_INVALID && had_end)
			rc = 0; /* a damaged manifest: the record's own end */
	}
	if (!rc && manifest && !had_end)
		rc = session_check_plan(manifest, json_object_get(manifest, "hosts"), e);
	if (!rc)
		rc = ledger_has_end(record) ? finish(s, record, n, e)
					    : hand_out(s, record, n, manifest, out, e);
	json_decref(manifest);
	json_decref(record);
	return rc;
}
