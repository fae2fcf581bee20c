/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of sessions. Where a session's lines are follows from its name alone, so no search is needed to find them,
 * to list from them on, or to remove them (index_line.h):
 *
 *   tutti/index/LINE        all sessions
 *   tutti/runs/RUN/LINE     those of a run; put after the first one, and removed before it
 *
 * A session's first line is put after its manifest, so that what is listed can be read. A retry's line is put before the
 * manifest that it repeats, and the line that it replaces goes after it. So a session with one
 * line is what that line says; with several, or none, what its manifest says. The folders keep a listing short where
 * objects are files: it reads those that it needs. A line's object has the session's marks: whose it is, and of which
 * namespaces.
 */
#include "aggregator/sessions/index_line.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "proto/names.h"

/* ---- keys ---- */

/* The folder of a run's lines. Sessions without a run have "~". */
static void run_prefix(const char *run, char out[SESSION_KEY_BYTES])
{
	size_t len;

	snprintf(out, SESSION_KEY_BYTES, RUNS "%s/", *run ? run : "~");
	len = strlen(out) - 1;
	for (char *at = out + strlen(RUNS); at < out + len; at++)
		*at = *at == '/' ? '~' : *at;
}

static void add_text(char key[SESSION_KEY_BYTES], const char *text)
{
	strncat(key, text, SESSION_KEY_BYTES - strlen(key) - 1);
}

/* The key that a session's lines begin with; it was the whole key before lines were part of it. */
static void place_key(const char *prefix, const char *session, char out[SESSION_KEY_BYTES])
{
	char place[INDEX_PLACE_BYTES];

	index_place(session, place);
	snprintf(out, SESSION_KEY_BYTES, "%s", prefix);
	add_text(out, place);
}

/* The keys of the session's lines below tutti/index/. */
static int find_lines(struct store *s, const char *session, struct session_keys *found,
		      struct err *e)
{
	char key[SESSION_KEY_BYTES];

	place_key(INDEX, session, key);
	return session_list_keys(s, key, NULL, session_keys_add, found, e);
}

/* ---- changing lines ---- */

/* `marks` are the object's bytes. */
static int put_line(struct store *s, const char *prefix, const char *line, const struct buf *marks,
		    struct err *e)
{
	char key[SESSION_KEY_BYTES];

	snprintf(key, sizeof(key), "%s", prefix);
	add_text(key, line);
	return store_put_bytes(s, key, marks->data, marks->len, 0, store_within(STORE_PATIENCE_NS),
			       e);
}

static int put_lines(struct store *s, const struct session_line *line, const json_t *manifest,
		     struct err *e)
{
	char text[INDEX_LINE_BYTES], prefix[SESSION_KEY_BYTES];
	struct buf marks = BUF_INIT;
	int rc;

	index_line_write(line, text);
	run_prefix(line->run, prefix);
	json_write(&marks, session_marks_of(manifest), 0);
	rc = put_line(s, INDEX, text, &marks, e);
	if (!rc)
		rc = put_line(s, prefix, text, &marks, e);
	buf_release(&marks);
	return rc;
}

int session_index_put(struct store *s, const json_t *manifest, struct err *e)
{
	struct session_line line;

	index_line_of(manifest, &line);
	return put_lines(s, &line, manifest, e);
}

/* Removes these lines below tutti/index/, and before them those of the run. */
static int remove_lines(struct store *s, const char *run, const struct session_keys *lines,
			struct err *e)
{
	struct session_keys keys = { 0 };
	char key[SESSION_KEY_BYTES];
	int rc;

	for (size_t i = 0; i < lines->n; i++) {
		run_prefix(run, key);
		add_text(key, lines->items[i] + strlen(INDEX));
		session_keys_add(&keys, key, NULL);
	}
	for (size_t i = 0; i < lines->n; i++)
		session_keys_add(&keys, lines->items[i], NULL);
	rc = store_remove_all(s, (const char *const *)keys.items, keys.n,
			      store_within(STORE_PATIENCE_NS), e);
	session_keys_release(&keys);
	return rc;
}

int session_index_remove(struct store *s, const char *session, const char *run, struct err *e)
{
	struct session_keys found = { 0 };
	char old[SESSION_KEY_BYTES];
	int rc;

	if (!name_is_session(session))
		return 0;
	rc = find_lines(s, session, &found, e);
	place_key(INDEX, session, old);
	session_keys_add(&found, old, NULL);
	if (!rc)
		rc = remove_lines(s, run, &found, e);
	session_keys_release(&found);
	return rc;
}

/* Leaves the keys that are not of this line. */
static void drop_line(struct session_keys *keys, const struct session_line *line)
{
	char text[INDEX_LINE_BYTES];
	size_t n = 0;

	index_line_write(line, text);
	for (size_t i = 0; i < keys->n; i++) {
		if (strcmp(keys->items[i] + strlen(INDEX), text) != 0)
			keys->items[n++] = keys->items[i];
		else
			free(keys->items[i]);
	}
	keys->n = n;
}

int session_index_settle(struct store *s, const json_t *manifest, struct err *e)
{
	struct session_keys found = { 0 };
	struct session_line line;
	int rc;

	index_line_of(manifest, &line);
	rc = find_lines(s, line.session, &found, e);
	drop_line(&found, &line);
	if (!rc && found.n)
		rc = remove_lines(s, line.run, &found, e);
	session_keys_release(&found);
	return rc;
}

/* ---- marks ---- */

#define MARKS_BYTES ((size_t)2 << 20)

json_t *session_marks_of(const json_t *document)
{
	static const char *const members[] = { "owner", "namespaces" };
	json_t *marks = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *value = json_object_get(document, members[i]);

		if (value)
			json_put(marks, members[i], json_deep_copy(value));
	}
	return marks;
}

static int read_manifest_marks(struct store *s, const char *session, json_t **out, struct err *e)
{
	json_t *document = NULL;
	int rc = session_load_manifest(s, session, &document, e);

	if (rc == ERR_NOT_FOUND && !session_load_failure(s, session, &document, NULL))
		rc = 0;
	if (!rc)
		*out = session_marks_of(document);
	json_decref(document);
	return rc;
}

/* All lines of a session have the same marks; with a line that was put before there were any, or none, the manifest
 * tells. */
int session_load_marks(struct store *s, const char *session, json_t **out, struct err *e)
{
	struct session_keys found = { 0 };
	struct session_line line;
	int rc = find_lines(s, session, &found, e);

	*out = NULL;
	if (!rc && found.n && index_line_read(found.items[0], &line) &&
	    session_get_json(s, found.items[0], MARKS_BYTES, out, NULL))
		*out = NULL;
	session_keys_release(&found);
	if (rc || json_object_size(*out))
		return rc;
	json_decref(*out);
	*out = NULL;
	return read_manifest_marks(s, session, out, e);
}

/* ---- making them anew ---- */

/* If the manifest was removed meanwhile, removes the new lines again. */
static int put_if_there(struct store *s, const struct session_line *line, const json_t *manifest,
			struct err *e)
{
	struct err there;
	int rc = put_lines(s, line, manifest, e);

	if (!rc && !session_check_no_manifest(s, line->session, &there))
		rc = session_index_remove(s, line->session, line->run, e);
	return rc;
}

/*
 * Other lines are removed only of a session that is not under way, since a retry puts its line before its manifest. They
 * are listed before the ledger is looked for, and that before the manifest is read: the line of a commit that took
 * place meanwhile is either not in the list, or the manifest's own.
 */
int session_index_rebuild(struct store *s, const char *session, struct session_line *out,
			  struct err *e)
{
	struct session_keys found = { 0 };
	bool is_under_way = true;
	json_t *manifest = NULL;
	int rc = find_lines(s, session, &found, e);

	*out = (struct session_line){ 0 };
	if (!rc)
		rc = ledger_find(s, session, &is_under_way, e);
	if (!rc)
		rc = session_load_manifest(s, session, &manifest, e);
	if (rc)
		goto out;
	index_line_of(manifest, out);
	drop_line(&found, out);
	rc = put_if_there(s, out, manifest, e);
	if (!rc && found.n && !is_under_way)
		rc = remove_lines(s, out->run, &found, e);
out:
	json_decref(manifest);
	session_keys_release(&found);
	return rc;
}

/* The only line among the keys. */
static bool read_only_line(const struct session_keys *keys, struct session_line *out)
{
	struct session_line line;
	size_t n = 0;

	for (size_t i = 0; i < keys->n; i++) {
		if (index_line_read(keys->items[i], &line)) {
			*out = line;
			n++;
		}
	}
	return n == 1;
}

/* A store that is full, or that may only be read, keeps no session from being shown. */
int session_load_line(struct store *s, const char *session, struct session_line *out, struct err *e)
{
	struct session_keys found = { 0 };
	int rc = find_lines(s, session, &found, e);

	if (rc || read_only_line(&found, out))
		goto out;
	rc = session_index_rebuild(s, session, out, e);
	if (rc && *out->session) {
		log_warn("AGG-INDEX", "session=%s reason=\"%s\"", session, e->msg);
		rc = 0;
	}
out:
	session_keys_release(&found);
	return rc;
}

/* ---- walking ---- */

/* One look at the index, which has all lines of a session one after the other. */
struct walk {
	session_each_fn each;
	void *arg;
	char session[SESSION_NAME_BYTES]; /* whose lines are being read; "" before the first one */
	struct session_line line;
	unsigned int lines;
	bool is_over; /* `each` wants no more */
};

static void tell(struct walk *w)
{
	if (*w->session)
		w->is_over = !w->each(w->arg, w->session, w->lines == 1 ? &w->line : NULL);
}

static bool on_key(void *arg, const char *key, const struct store_stat *st)
{
	struct walk *w = arg;
	char session[SESSION_NAME_BYTES];
	struct session_line line;

	(void)st;
	if (!index_line_session(key, session))
		return true;
	if (strcmp(session, w->session) != 0) {
		tell(w);
		memcpy(w->session, session, sizeof(session));
		w->lines = 0;
	}
	if (index_line_read(key, &line)) {
		w->line = line;
		w->lines++;
	}
	return !w->is_over;
}

static int walk_lines(struct store *s, const char *prefix, const char *after, session_each_fn each,
		      void *arg, struct err *e)
{
	struct walk w = { .each = each, .arg = arg };
	int rc = session_list_keys(s, prefix, after, on_key, &w, e);

	if (!rc && !w.is_over)
		tell(&w);
	return rc;
}

int session_each(struct store *s, const char *run, session_each_fn each, void *arg, struct err *e)
{
	char prefix[SESSION_KEY_BYTES] = INDEX;

	if (run)
		run_prefix(run, prefix);
	return walk_lines(s, prefix, NULL, each, arg, e);
}

/* ---- listing ---- */

struct listing {
	struct store *store;
	size_t limit;
	session_wanted_fn wanted; /* NULL = all */
	void *wanted_arg;
	json_t *sessions;
	int rc;
	struct err *e;
};

static json_t *summary_of(const struct session_line *l)
{
	json_t *o = json_object();

	json_put_text(o, "session", l->session);
	json_put_text(o, "run", l->run);
	json_put_int(o, "t0_ns", l->t0_ns);
	json_put_int(o, "duration_ns", l->duration_ns);
	json_put_int(o, "complete", l->complete);
	json_put_int(o, "partial", l->partial);
	json_put_int(o, "failed", l->failed);
	json_put_int(o, "bytes", l->bytes);
	json_put_int(o, "hosts", l->hosts);
	return o;
}

/* A session that was deleted meanwhile, or that is damaged, is left out of the listing; the others are
 * listed. */
static bool list_one(void *arg, const char *session, const struct session_line *line)
{
	struct listing *l = arg;
	struct session_line loaded;
	int rc;

	if (l->wanted && !l->wanted(l->wanted_arg, session))
		return true;
	rc = line ? 0 : session_load_line(l->store, session, &loaded, l->e);

	if (rc == ERR_INVALID)
		log_warn("AGG-INDEX", "session=%s reason=\"%s\"", session, l->e->msg);
	if (rc == ERR_INVALID || rc == ERR_NOT_FOUND)
		return true;
	l->rc = rc;
	if (!rc)
		json_array_append_new(l->sessions, summary_of(line ? line : &loaded));
	return !rc && json_array_size(l->sessions) < l->limit;
}

int session_list(struct store *s, const struct session_query *q, json_t **out, struct err *e)
{
	struct listing l = { .store = s,
			     .limit = q->limit,
			     .wanted = q->wanted,
			     .wanted_arg = q->arg,
			     .sessions = json_array(),
			     .e = e };
	const char *run = q->run, *after = q->after;
	char prefix[SESSION_KEY_BYTES] = INDEX, last[SESSION_KEY_BYTES];
	int rc;

	if (run)
		run_prefix(run, prefix);
	if (after) {
		place_key(prefix, after, last);
		add_text(last, "~~"); /* follows all lines of that session */
	}
	rc = walk_lines(s, prefix, after ? last : NULL, list_one, &l, e);
	rc = rc ? rc : l.rc;
	if (rc) {
		json_decref(l.sessions);
		return rc;
	}
	*out = json_object();
	json_put(*out, "sessions", l.sessions);
	return 0;
}
