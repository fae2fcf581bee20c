/* SPDX-License-Identifier: Apache-2.0 */
/* Removes or recovers what a crash left of sessions, at the next start. */
#include "aggregator/sessions/sessions_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "base/log.h"
#include "base/mem.h"

struct sweep {
	char session[SESSION_NAME_BYTES]; /* the session whose keys are listed now */
	bool has_plan, has_manifest, has_retry;
	struct session_keys orphans, retries; /* session names, sorted as listed */
};

static void sweep_close(struct sweep *w)
{
	if (w->has_plan && !w->has_manifest)
		session_keys_add(&w->orphans, w->session, NULL);
	if (w->has_retry && w->has_manifest)
		session_keys_add(&w->retries, w->session, NULL);
	w->has_plan = w->has_manifest = w->has_retry = false;
	w->session[0] = '\0';
}

/* For store_list(): the keys of a session are listed together. */
static bool sweep_key(void *arg, const char *key, const struct store_stat *st)
{
	struct sweep *w = arg;
	const char *session = key + strlen(SESSIONS);
	size_t len = strcspn(session, "/");

	(void)st;
	if (len >= SESSION_NAME_BYTES)
		return true;
	if (strlen(w->session) != len || memcmp(w->session, session, len)) {
		sweep_close(w);
		snprintf(w->session, sizeof(w->session), "%.*s", (int)len, session);
	}
	w->has_plan |= !strcmp(session + len, "/plan.json");
	w->has_manifest |= !strcmp(session + len, "/manifest.json");
	w->has_retry |= !strcmp(session + len, "/retry.json");
	return true;
}

static bool add_stored(void *arg, const char *key, const struct store_stat *st)
{
	const char *name = strrchr(key, '/') + 1;
	size_t len = strlen(name), suffix = strlen(SESSION_FILE_SUFFIX);

	if (len > suffix && !strcmp(name + len - suffix, SESSION_FILE_SUFFIX))
		json_object_set_new((json_t *)arg, name, json_integer((json_int_t)st->size));
	return true;
}

/* Removes files of hosts whose first file, which is stored last, is missing: XProf would show them. */
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

/* True if the capture of this record can never be recovered. Any other error may be a store that fails for a
 * moment, which must not lose the capture. */
static bool is_unrecoverable(int rc)
{
	return rc == ERR_UNSUPPORTED || rc == ERR_INVALID || rc == ERR_NOT_FOUND;
}

/* ERR_UNSUPPORTED for a failed capture whose objects were not removed before the crash. */
static int check_not_failed(struct store *s, const char *session, struct err *e)
{
	json_t *record;
	int rc = session_load_failure(s, session, &record, e);

	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	json_decref(record);
	return err_set(e, ERR_UNSUPPORTED, "the capture has failed");
}

/* ERR_UNSUPPORTED for a failed capture and for a plan without "resume". */
static int recover_session(struct store *s, const char *session, json_t *recoverable, struct err *e)
{
	json_t *plan = NULL, *stored = json_object();
	int rc = check_not_failed(s, session, e);

	if (!rc)
		rc = session_load_plan(s, session, &plan, e);
	if (!rc && !json_is_object(json_object_get(plan, "resume")))
		rc = err_set(e, ERR_UNSUPPORTED, "the record cannot be carried on");
	if (!rc)
		rc = list_stored(s, plan, stored, e);
	/* Its commit may have been cut off before the manifest: it is not to be listed. */
	if (!rc)
		rc = session_index_remove(s, session, json_get_text(plan, "run"), e);
	if (!rc) {
		json_put(plan, "stored", json_incref(stored));
		json_array_append(recoverable, plan);
	}
	json_decref(stored);
	json_decref(plan);
	return rc;
}

static int load_plan_or_null(struct store *s, const char *session, json_t **plan, struct err *e)
{
	int rc = session_load_plan(s, session, plan, e);

	if (!is_unrecoverable(rc))
		return rc;
	*plan = json_null();
	return 0;
}

/* ERR_UNSUPPORTED if the new manifest is there already, or the record is incomplete. */
static int recover_retry(struct store *s, const char *session, json_t *recoverable, struct err *e)
{
	json_t *retry = NULL, *manifest = NULL, *plan = NULL, *stored = json_object();
	int rc = session_load_retry(s, session, &retry, e);

	if (!rc)
		rc = session_load_manifest(s, session, &manifest, e);
	if (!rc && (json_get_int(retry, "revision") <= json_get_int(manifest, "revision") ||
		    !json_object_get(retry, "instances")))
		rc = err_set(e, ERR_UNSUPPORTED, "the record cannot be carried on");
	if (!rc)
		rc = list_stored(s, manifest, stored, e);
	if (!rc)
		rc = load_plan_or_null(s, session, &plan, e);
	if (!rc)
		json_array_append_new(recoverable,
				      json_pack("{sO sO sO sO}", "retry", retry, "manifest",
						manifest, "plan", plan, "stored", stored));
	json_decref(stored);
	json_decref(plan);
	json_decref(manifest);
	json_decref(retry);
	return rc;
}

static int sweep_session(struct store *s, const char *session, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	json_t *plan = NULL;
	const char *run = "";
	int rc;

	session_record_key(session, "plan.json", key);
	rc = session_get_json(s, key, MANIFEST_BYTES, &plan, e);
	if (rc && rc != ERR_INVALID)
		return rc;
	if (!rc)
		run = json_get_text(plan, "run");
	rc = session_discard(s, session, run, json_get_int(plan, "t0_ns"), e);
	if (!rc)
		log_warn("AGG-SWEPT", "session=%s run=\"%s\" reason=\"planned, never committed\"",
			 session, run);
	json_decref(plan);
	return rc;
}

static int sweep_orphan(struct store *s, const char *session, json_t *recoverable, int *swept,
			struct err *e)
{
	int rc = recoverable ? recover_session(s, session, recoverable, e) : ERR_UNSUPPORTED;

	if (!is_unrecoverable(rc))
		return rc;
	rc = sweep_session(s, session, e);
	*swept += !rc;
	return rc;
}

static int sweep_retry(struct store *s, const char *session, json_t *recoverable, struct err *e)
{
	int rc = recoverable ? recover_retry(s, session, recoverable, e) : ERR_UNSUPPORTED;

	return is_unrecoverable(rc) ? session_retry_undo(s, session, e) : rc;
}

static int sweep_list(struct store *s, struct session_sweep *w, struct err *e)
{
	struct sweep found = { 0 };
	int rc = session_list_keys(s, SESSIONS, NULL, sweep_key, &found, e);

	sweep_close(&found);
	if (rc) {
		session_keys_release(&found.retries);
		session_keys_release(&found.orphans);
		return rc;
	}
	w->listed = true;
	w->orphans = found.orphans.items;
	w->n_orphans = found.orphans.n;
	w->retries = found.retries.items;
	w->n_retries = found.retries.n;
	return 0;
}

/* Keeps of `names` those that fail; the error is of the last one. */
static int sweep_names(struct store *s, char **names, size_t *n, bool are_orphans,
		       json_t *recoverable, int *swept, struct err *e)
{
	size_t left = 0;
	int failure = 0;

	for (size_t i = 0; i < *n; i++) {
		int rc = are_orphans ? sweep_orphan(s, names[i], recoverable, swept, e)
				     : sweep_retry(s, names[i], recoverable, e);

		if (rc) {
			failure = err_prefix(e, "session %s", names[i]);
			names[left++] = names[i];
		} else {
			free(names[i]);
		}
	}
	*n = left;
	return failure;
}

int session_sweep_round(struct store *s, struct session_sweep *w, json_t *recoverable, int *swept,
			struct err *e)
{
	struct err later;
	int rc = w->listed ? 0 : sweep_list(s, w, e);

	*swept = 0;
	if (rc)
		return rc;
	rc = sweep_names(s, w->orphans, &w->n_orphans, true, recoverable, swept, e);
	if (!sweep_names(s, w->retries, &w->n_retries, false, recoverable, swept, &later))
		return rc;
	*e = later;
	return e->code;
}

static void release_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

void session_sweep_release(struct session_sweep *w)
{
	release_names(w->orphans, w->n_orphans);
	release_names(w->retries, w->n_retries);
	*w = (struct session_sweep){ 0 };
}

int session_sweep(struct store *s, json_t *recoverable, int *swept, struct err *e)
{
	struct session_sweep w = { 0 };
	int rc = session_sweep_round(s, &w, recoverable, swept, e);

	session_sweep_release(&w);
	return rc;
}
