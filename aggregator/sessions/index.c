/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of sessions. A session's keys in it follow from its name alone, so no search is needed to find it,
 * to list from it on, or to remove it:
 *
 *   tutti/index/DAY/HOUR/TIME-SESSION        its summary
 *   tutti/runs/RUN/DAY/HOUR/TIME-SESSION     nothing: it says that the session is of this run
 *
 * DAY, HOUR and TIME are the digits of the name (YYYYMMDD, HH, MMSS), each subtracted from 9: in byte order the
 * newest session is first. The folders keep a listing short where objects are files: it reads those that it
 * needs.
 */
#include "aggregator/sessions/sessions_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "proto/names.h"

#define SUMMARY_BYTES 4096u

/* ---- keys ---- */

/* "79738877/93/9394-2026_11_22_06_06_05_abc123"; `session` is the name of a session. */
static void entry_of(const char *session, char out[INDEX_ENTRY_BYTES])
{
	static const int digits[] = { 0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18 };
	char *at = out;

	for (size_t i = 0; i < ARRAY_SIZE(digits); i++) {
		if (i == 8 || i == 10)
			*at++ = '/';
		*at++ = (char)('9' - (session[digits[i]] - '0'));
	}
	snprintf(at, INDEX_ENTRY_BYTES - (size_t)(at - out), "-%s", session);
}

const char *session_of_index(const char *key)
{
	const char *name = strrchr(key, '-');
	char entry[INDEX_ENTRY_BYTES];
	size_t len;

	if (!name || !name_is_session(++name))
		return NULL;
	entry_of(name, entry);
	len = strlen(entry);
	return strlen(key) > len && !strcmp(key + strlen(key) - len, entry) ? name : NULL;
}

/* Writes a run as one part of a key: '/' becomes '~', which no run has. Sessions without a run have "~". */
static void run_prefix(const char *run, char out[SESSION_KEY_BYTES])
{
	size_t len;

	snprintf(out, SESSION_KEY_BYTES, RUNS "%s/", *run ? run : "~");
	len = strlen(out) - 1;
	for (char *at = out + strlen(RUNS); at < out + len; at++)
		*at = *at == '/' ? '~' : *at;
}

static void add_entry(char key[SESSION_KEY_BYTES], const char *session)
{
	char entry[INDEX_ENTRY_BYTES];

	entry_of(session, entry);
	strncat(key, entry, SESSION_KEY_BYTES - strlen(key) - 1);
}

static void index_key(const char *session, char out[SESSION_KEY_BYTES])
{
	snprintf(out, SESSION_KEY_BYTES, INDEX);
	add_entry(out, session);
}

static void run_key(const char *session, const char *run, char out[SESSION_KEY_BYTES])
{
	run_prefix(run, out);
	add_entry(out, session);
}

/* ---- entries ---- */

static json_t *summary_of(const json_t *manifest)
{
	static const char *const numbers[] = { "t0_ns",	  "duration_ns", "complete",
					       "partial", "failed",	 "bytes" };
	json_t *o = json_object();

	json_put_text(o, "session", json_get_text(manifest, "session"));
	json_put_text(o, "run", json_get_text(manifest, "run"));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_put_int(o, numbers[i], json_get_int(manifest, numbers[i]));
	json_put_int(o, "hosts", (int64_t)json_array_size(json_object_get(manifest, "hosts")));
	return o;
}

int session_index_put(struct store *s, const char *session, const json_t *manifest, struct err *e)
{
	json_t *summary = summary_of(manifest);
	char key[SESSION_KEY_BYTES];
	int rc;

	run_key(session, json_get_text(manifest, "run"), key);
	rc = store_put_bytes(s, key, "{}", 2, 0, store_within(STORE_PATIENCE_NS), e);
	index_key(session, key);
	if (!rc)
		rc = session_put_json(s, key, summary, 0, e);
	json_decref(summary);
	return rc;
}

int session_index_remove(struct store *s, const char *session, const char *run, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	if (!name_is_session(session))
		return 0;
	index_key(session, key);
	rc = session_remove_key(s, key, e);
	run_key(session, run, key);
	return rc ? rc : session_remove_key(s, key, e);
}

/* If the manifest was removed meanwhile, removes the new entry again. */
int session_index_rebuild(struct store *s, const char *session, json_t **summary, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	json_t *manifest;
	struct err gone;
	int rc = session_load_manifest(s, session, &manifest, e);

	if (rc)
		return rc;
	rc = session_index_put(s, session, manifest, e);
	session_record_key(session, "manifest.json", key);
	if (!rc &&
	    store_stat(s, key, store_within(STORE_PATIENCE_NS), NULL, &gone) == ERR_NOT_FOUND)
		rc = session_index_remove(s, session, json_get_text(manifest, "run"), e);
	if (summary)
		*summary = summary_of(manifest);
	json_decref(manifest);
	return rc;
}

/* Made anew if it is missing or damaged. */
int session_load_summary(struct store *s, const char *session, json_t **summary, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	index_key(session, key);
	rc = session_get_json(s, key, SUMMARY_BYTES, summary, e);
	if (!rc && !strcmp(json_get_text(*summary, "session"), session))
		return 0;
	if (!rc)
		json_decref(*summary);
	else if (rc == ERR_TIMEOUT)
		return rc;
	*summary = NULL;
	rc = session_index_rebuild(s, session, summary, e);
	if (!*summary)
		return rc;
	if (rc)
		log_warn("AGG-INDEX", "session=%s reason=\"%s\"", session, e->msg);
	return 0;
}

/* ---- listing ---- */

#define KNOWN_MAX 2000

void session_known_release(struct session_known *known)
{
	json_decref(known->texts);
	known->texts = NULL;
}

/* A new reference, or NULL. */
static json_t *find_known(const struct session_known *known, const char *session, const char *tag)
{
	const char *text = known ? json_get_text(known->texts, session) : "";
	size_t len = strlen(tag);
	json_t *summary;

	if (!len || strncmp(text, tag, len) != 0 || text[len] != '\n')
		return NULL;
	text += len + 1;
	return json_parse(&summary, text, strlen(text), NULL) ? NULL : summary;
}

static void remember(struct session_known *known, const char *session, const char *tag,
		     const json_t *summary)
{
	struct buf text = BUF_INIT;

	if (!known || !*tag)
		return;
	if (!known->texts)
		known->texts = json_object();
	if (json_object_size(known->texts) >= KNOWN_MAX)
		json_object_clear(known->texts);
	buf_addf(&text, "%s\n", tag);
	json_append(&text, summary, 0);
	json_put_text(known->texts, session, buf_str(&text));
	buf_release(&text);
}

/* One listing. */
struct listing {
	struct store *store;
	struct session_known *known; /* NULL: the tags are not those of summaries */
	size_t limit;
	json_t *sessions;
};

struct page_entry {
	char *key;
	char tag[STORE_TAG_MAX + 1];
};

struct page {
	struct page_entry *entries;
	size_t n, max;
};

static bool add_entry_of_page(void *arg, const char *key, const struct store_stat *st)
{
	struct page *p = arg;

	p->entries = xrealloc(p->entries, (p->n + 1) * sizeof(*p->entries));
	p->entries[p->n].key = xstrdup(key);
	memcpy(p->entries[p->n++].tag, st->tag, sizeof(st->tag));
	return p->n < p->max;
}

static void page_release(struct page *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->entries[i].key);
	free(p->entries);
}

static int load_or_know(struct listing *l, const char *session, const char *tag, json_t **summary,
			struct err *e)
{
	int rc;

	*summary = find_known(l->known, session, tag);
	if (*summary)
		return 0;
	rc = session_load_summary(l->store, session, summary, e);
	if (!rc)
		remember(l->known, session, tag, *summary);
	return rc;
}

/* A session that was deleted meanwhile, or that is damaged, is left out of the listing; the others are
 * listed. */
static int list_one(struct listing *l, const struct page_entry *entry, struct err *e)
{
	const char *session = session_of_index(entry->key);
	json_t *summary;
	int rc = session ? load_or_know(l, session, entry->tag, &summary, e) : ERR_NOT_FOUND;

	if (rc == ERR_INVALID)
		log_warn("AGG-INDEX", "key=%s reason=\"%s\"", entry->key, e->msg);
	if (rc == ERR_INVALID || rc == ERR_NOT_FOUND)
		return 0;
	if (!rc)
		json_array_append_new(l->sessions, summary);
	return rc;
}

/* Below `prefix`, after the key `after` unless it is NULL. */
static int list_pages(struct listing *l, const char *prefix, const char *after, struct err *e)
{
	char *last = after ? xstrdup(after) : NULL;
	bool more = l->limit > 0;
	int rc = 0;

	while (more) {
		struct page p = { .max = l->limit - json_array_size(l->sessions) };

		rc = session_list_keys(l->store, prefix, last, add_entry_of_page, &p, e);
		for (size_t i = 0; i < p.n && !rc; i++)
			rc = list_one(l, &p.entries[i], e);
		more = !rc && p.n == p.max && json_array_size(l->sessions) < l->limit;
		free(last);
		last = more ? xstrdup(p.entries[p.n - 1].key) : NULL;
		page_release(&p);
	}
	free(last);
	return rc;
}

int session_list(struct store *s, const char *run, const char *after, size_t limit,
		 struct session_known *known, json_t **out, struct err *e)
{
	struct listing l = {
		.store = s, .known = run ? NULL : known, .limit = limit, .sessions = json_array()
	};
	char prefix[SESSION_KEY_BYTES] = INDEX, last[SESSION_KEY_BYTES];
	int rc;

	if (run)
		run_prefix(run, prefix);
	memcpy(last, prefix, sizeof(last));
	if (after)
		add_entry(last, after);
	rc = list_pages(&l, prefix, after ? last : NULL, e);
	if (rc) {
		json_decref(l.sessions);
		return rc;
	}
	*out = json_object();
	json_put(*out, "sessions", l.sessions);
	return 0;
}

/* ---- walking ---- */

struct walk_of_index {
	session_each_fn each;
	void *arg;
};

static bool on_index_key(void *arg, const char *key, const struct store_stat *st)
{
	const struct walk_of_index *w = arg;
	const char *session = session_of_index(key);

	return !session || w->each(w->arg, session, st->tag);
}

int session_each(struct store *s, const char *run, session_each_fn each, void *arg, struct err *e)
{
	struct walk_of_index w = { each, arg };
	char prefix[SESSION_KEY_BYTES] = INDEX;

	if (run)
		run_prefix(run, prefix);
	return session_list_keys(s, prefix, NULL, on_index_key, &w, e);
}
