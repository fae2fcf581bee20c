/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/lease/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "json/json_text.h"
#include "storage/store.h"

#define FOLDER	  "tutti/leader/"
#define DIGITS	  10
#define KEY_BYTES (sizeof(FOLDER) + 20 + sizeof(".json"))
#define MAX_BYTES 4096

static void make_key(uint64_t term, char key[KEY_BYTES])
{
	snprintf(key, KEY_BYTES, FOLDER "%0*" PRIu64 ".json", DIGITS, term);
}

/* 0 if the key is not that of a record. */
static uint64_t term_of(const char *key)
{
	const char *digits = key + strlen(FOLDER);

	if (strspn(digits, "0123456789") != DIGITS || strcmp(digits + DIGITS, ".json"))
		return 0;
	return strtoull(digits, NULL, 10);
}

static bool note_term(void *arg, const char *key, const struct store_stat *st)
{
	uint64_t *highest = arg, term = term_of(key);

	(void)st;
	if (term > *highest)
		*highest = term;
	return true;
}

static int read_document(struct store *s, const char *key, int64_t deadline_mono_ns, json_t **out,
			 struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = store_get_bytes(s, key, MAX_BYTES, deadline_mono_ns, &text, e);

	if (!rc)
		rc = json_parse(out, text.data, text.len, e);
	buf_release(&text);
	return rc;
}

int record_read(struct store *s, int64_t deadline_mono_ns, struct lease_view *view,
		json_t **document, struct err *e)
{
	struct lease_view found = { 0 };
	const struct store_list list = { .prefix = FOLDER,
					 .each = note_term,
					 .arg = &found.term,
					 .deadline_mono_ns = deadline_mono_ns };
	char key[KEY_BYTES];
	int rc = store_list(s, &list, e);

	*document = NULL;
	if (rc)
		return rc;
	if (found.term) {
		make_key(found.term, key);
		rc = read_document(s, key, deadline_mono_ns, document, e);
		if (rc && rc != ERR_INVALID && rc != ERR_LIMIT)
			return rc;
		found.beat = (uint64_t)json_get_int(*document, "beat");
		found.released = json_get_bool(*document, "released");
	}
	*view = found;
	return 0;
}

static int put(struct store *s, const struct record *r, unsigned int flags,
	       int64_t deadline_mono_ns, struct err *e)
{
	json_t *doc = json_object();
	struct buf text = BUF_INIT;
	char key[KEY_BYTES];
	int rc;

	json_put_int(doc, "version", 1);
	json_put_text(doc, "replica", r->replica);
	json_put_text(doc, "url", r->url);
	json_put_int(doc, "beat", (int64_t)r->beat);
	json_put_bool(doc, "released", r->released);
	if (r->clock)
		json_put(doc, "clock", json_deep_copy(r->clock));
	json_write(&text, doc, JSON_COMPACT);
	make_key(r->term, key);
	rc = store_put_bytes(s, key, text.data, text.len, flags, deadline_mono_ns, e);
	buf_release(&text);
	return rc;
}

int record_create(struct store *s, const struct record *r, int64_t deadline_mono_ns, struct err *e)
{
	return put(s, r, STORE_ABSENT, deadline_mono_ns, e);
}

int record_replace(struct store *s, const struct record *r, int64_t deadline_mono_ns, struct err *e)
{
	return put(s, r, 0, deadline_mono_ns, e);
}

struct old_terms {
	struct store *store;
	uint64_t before;
	int64_t deadline_mono_ns;
	int rc;
	struct err *e;
};

static bool remove_old(void *arg, const char *key, const struct store_stat *st)
{
	struct old_terms *old = arg;
	uint64_t term = term_of(key);

	(void)st;
	if (term && term < old->before)
		old->rc = store_remove(old->store, key, old->deadline_mono_ns, old->e);
	return !old->rc;
}

int record_remove_before(struct store *s, uint64_t term, int64_t deadline_mono_ns, struct err *e)
{
	struct old_terms old = { s, term, deadline_mono_ns, 0, e };
	const struct store_list list = { .prefix = FOLDER,
					 .each = remove_old,
					 .arg = &old,
					 .deadline_mono_ns = deadline_mono_ns };
	int rc = store_list(s, &list, e);

	return rc ? rc : old.rc;
}
