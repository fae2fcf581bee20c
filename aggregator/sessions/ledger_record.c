/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/ledger_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "json/packed.h"
#include "proto/names.h"

#define LEDGER	      "tutti/ledger/"
#define DIGITS	      6
#define SUFFIX	      ".json"
#define LOOK_AGAIN_NS NS_PER_S

/* Goes on while this process, or its machine, is frozen. */
static int64_t elapsed_ns(void)
{
	return now_mono_ns() + now_suspended_ns();
}

static void record_key(const char *session, unsigned int n, char out[SESSION_KEY_BYTES])
{
	snprintf(out, SESSION_KEY_BYTES, LEDGER "%s.%0*u" SUFFIX, session, DIGITS, n);
}

/* The number in a key of this session; 0 if it is no key of a record. */
static unsigned int number_of(const char *key)
{
	const char *text = strchr(key + strlen(LEDGER), '.');
	unsigned long n;
	char *end;

	if (!text || strspn(text + 1, "0123456789") < DIGITS)
		return 0;
	n = strtoul(text + 1, &end, 10);
	return strcmp(end, SUFFIX) || n > UINT32_MAX ? 0 : (unsigned int)n;
}

/* ---- listing ---- */

/* For store_list(): the records of a session are listed one after the other. */
static bool add_session(void *arg, const char *key, const struct store_stat *st)
{
	struct session_keys *names = arg;
	const char *name = key + strlen(LEDGER);
	char session[SESSION_NAME_BYTES];
	size_t len = strcspn(name, ".");

	if (strchr(name, '/'))
		log_error("AGG-LEDGER",
			  "key=%s reason=\"there is a folder among the ledger records\"", key);
	if (len >= sizeof(session) || !number_of(key))
		return true;
	snprintf(session, sizeof(session), "%.*s", (int)len, name);
	if (!name_is_session(session))
		return true;
	if (!names->n || strcmp(names->items[names->n - 1], session))
		session_keys_add(names, session, st);
	return true;
}

int session_list_left(struct store *s, struct session_keys *names, struct err *e)
{
	int rc = session_list_keys(s, LEDGER, NULL, add_session, names, e);

	if (rc)
		session_keys_release(names);
	return rc;
}

/* Keys come in byte order: for six digits that is the order of the numbers. */
static int list_records(struct store *s, const char *session, struct session_keys *found,
			struct err *e)
{
	char *prefix = xasprintf(LEDGER "%s.", session);
	int rc = session_list_keys(s, prefix, NULL, session_keys_add, found, e);

	free(prefix);
	return rc;
}

/* ---- reading ---- */

int ledger_find(struct store *s, const char *session, bool *found, struct err *e)
{
	struct session_keys keys = { 0 };
	int rc = list_records(s, session, &keys, e);

	*found = keys.n > 0;
	session_keys_release(&keys);
	return rc;
}

static int get_record(struct store *s, const char *key, json_t **record, struct err *e)
{
	int rc = session_get_json(s, key, MANIFEST_BYTES, record, e);
	int64_t version;

	if (rc)
		return rc;
	version = json_get_int(*record, "version");
	if (version >= LEDGER_VERSION && version <= LEDGER_END_VERSION)
		return 0;
	json_decref(*record);
	*record = NULL;
	return err_set(
		e, ERR_UNSUPPORTED,
		"%s has version %" PRId64
		" of the format, and this aggregator reads up to version %d: it is left as it is",
		key, version, LEDGER_END_VERSION);
}

static int load_highest(struct store *s, const struct session_keys *found, json_t **record,
			struct err *e)
{
	int rc = ERR_NOT_FOUND;

	for (size_t i = found->n; i-- > 0;) {
		rc = get_record(s, found->items[i], record, e);
		if (rc == ERR_NOT_FOUND)
			return err_set(e, ERR_BUSY,
				       "%s was listed and is gone: it is being replaced",
				       found->items[i]);
		if (rc != ERR_INVALID)
			return rc;
		log_error("AGG-LEDGER", "key=%s reason=\"%s\"", found->items[i], e->msg);
	}
	return rc;
}

int ledger_load(struct store *s, const char *session, json_t **record, unsigned int *n,
		struct err *e)
{
	struct session_keys found = { 0 };
	int rc = list_records(s, session, &found, e);

	if (!rc && !found.n)
		rc = err_set(e, ERR_NOT_FOUND, "session %s has no ledger", session);
	if (!rc) {
		*n = number_of(found.items[found.n - 1]);
		rc = load_highest(s, &found, record, e);
	}
	session_keys_release(&found);
	return rc;
}

/* ---- writing ---- */

static bool same_owner(const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, "owner"), *y = json_object_get(b, "owner");

	return x && y && json_equal(x, y);
}

/* Both may be packed. */
static bool same_text(const json_t *a, const json_t *b)
{
	struct buf x = BUF_INIT, y = BUF_INIT;
	bool same;

	packed_write(&x, a);
	packed_write(&y, b);
	same = x.len == y.len && !memcmp(x.data, y.data, x.len);
	buf_release(&x);
	buf_release(&y);
	return same;
}

static int lost(const char *session, struct err *e)
{
	return err_set(e, ERR_EXISTS,
		       "another aggregator has taken session %s over: two must not use one store",
		       session);
}

/* A record that was there is not found: another owner has removed it, unless it was not the store that answered. */
static int lost_if_absent(struct store *s, const char *session, const char *key, struct err *e)
{
	int rc = session_check_absent(s, key, e);

	if (!rc)
		return lost(session, e);
	return rc == ERR_EXISTS ? err_set(e, ERR_PEER, "%s was not found, and is there", key) : rc;
}

/* Creates the record with the next free number. An earlier put whose answer was lost may have stored a record
 * of this owner under that number: if it is the same record, nothing is left to do; if it is an older one,
 * the next number is tried. */
static int create(struct store *s, const char *session, const json_t *record, unsigned int *n,
		  struct err *e)
{
	for (;;) {
		char key[SESSION_KEY_BYTES];
		json_t *there = NULL;
		bool same;
		int rc;

		record_key(session, *n + 1, key);
		rc = session_put_json(s, key, record, STORE_ABSENT, e);
		if (!rc)
			(*n)++;
		if (rc != ERR_EXISTS)
			return rc;
		rc = get_record(s, key, &there, e);
		if (rc == ERR_NOT_FOUND)
			return lost_if_absent(s, session, key, e);
		if (rc)
			return rc == ERR_UNSUPPORTED ? lost(session, e) : rc;
		same = same_text(there, record);
		rc = same || same_owner(there, record) ? 0 : lost(session, e);
		json_decref(there);
		if (rc)
			return rc;
		(*n)++;
		if (same)
			return 0;
	}
}

/* Removes the records below `n`. Stops when the listing is LOOK_AGAIN_NS old, because a number may then
 * belong to another owner's record. What is left is removed after the next put. */
static void remove_older(struct store *s, const struct session_keys *found, unsigned int n,
			 int64_t listed_ns)
{
	struct err e;

	for (size_t i = 0; i < found->n && elapsed_ns() - listed_ns < LOOK_AGAIN_NS; i++) {
		if (number_of(found->items[i]) < n && session_remove_key(s, found->items[i], &e))
			log_warn("AGG-LEDGER", "key=%s reason=\"%s\"", found->items[i], e.msg);
	}
}

/* Whether record `n` is missing. A store's listing may be out of date, so it also asks for the record itself. */
static int is_gone(struct store *s, const char *session, const struct session_keys *found,
		   unsigned int n, bool *yes, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	*yes = false;
	for (size_t i = 0; i < found->n; i++) {
		if (number_of(found->items[i]) == n)
			return 0;
	}
	record_key(session, n, key);
	rc = store_stat(s, key, store_within(STORE_PATIENCE_NS), NULL, e);
	*yes = rc == ERR_NOT_FOUND;
	return *yes ? 0 : rc;
}

/* This owner's last record is gone, so another owner has ended the session and removed its ledger. Removes
 * the new record again, so that it does not begin a second ledger. */
static int withdraw(struct store *s, const char *session, unsigned int n, struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	record_key(session, n, key);
	rc = session_remove_key(s, key, e);
	return rc ? rc : lost(session, e);
}

int ledger_put(struct store *s, const char *session, const json_t *record, unsigned int *n,
	       struct err *e)
{
	struct session_keys found = { 0 };
	unsigned int written = *n;
	bool was_removed = false;
	int rc = create(s, session, record, &written, e);
	int64_t listed_ns = elapsed_ns();

	if (!rc)
		rc = list_records(s, session, &found, e);
	if (!rc && found.n && number_of(found.items[found.n - 1]) > written)
		rc = lost(session, e);
	if (!rc && *n)
		rc = is_gone(s, session, &found, *n, &was_removed, e);
	if (was_removed)
		rc = withdraw(s, session, written, e);
	if (!rc) {
		remove_older(s, &found, written, listed_ns);
		*n = written;
	}
	session_keys_release(&found);
	return rc;
}

/* A put whose answer was lost has stored a record with a higher number. */
static int check_highest(struct store *s, const json_t *record, const char *key, struct err *e)
{
	json_t *there = NULL;
	int rc = get_record(s, key, &there, e);

	if (rc == ERR_NOT_FOUND)
		rc = lost_if_absent(s, json_get_text(record, "session"), key, e);
	else if (rc == ERR_UNSUPPORTED || (!rc && !same_owner(there, record)))
		rc = lost(json_get_text(record, "session"), e);
	json_decref(there);
	return rc;
}

int ledger_check(struct store *s, const json_t *record, unsigned int n, bool *is_there,
		 struct err *e)
{
	const char *session = json_get_text(record, "session");
	struct session_keys found = { 0 };
	bool was_removed = false;
	int rc = list_records(s, session, &found, e);

	if (!rc && found.n && number_of(found.items[found.n - 1]) > n)
		rc = check_highest(s, record, found.items[found.n - 1], e);
	if (!rc)
		rc = is_gone(s, session, &found, n, &was_removed, e);
	*is_there = !was_removed;
	session_keys_release(&found);
	return rc;
}

/* ---- an owner that was away ---- */

/* The first bytes of a record, up to and with "owner": enough of a stored record to tell whose it is. */
static void begin_of_record(const json_t *record, struct buf *out)
{
	static const char *const names[] = { "version", "session", "run", "owner" };
	json_t *head = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *value = json_object_get(record, names[i]);

		if (value)
			json_put(head, names[i], json_incref(value));
	}
	packed_write(out, head);
	buf_cut(out, out->len - 1); /* the brace at the end */
	json_decref(head);
}

static int add_bytes(void *buf, const void *data, size_t len, struct err *e)
{
	(void)e;
	buf_add(buf, data, len);
	return 0;
}

/* Older versions wrote the owner behind the hosts: then the whole record is read. */
static int check_whole(const struct ownership *o, const char *key, struct err *e)
{
	json_t *there = NULL;
	int rc = get_record(o->store, key, &there, e);

	if (rc == ERR_INVALID) /* record `n` is damaged, so an older one holds: o->record */
		return 0;
	if (!rc && !same_owner(there, o->record))
		rc = lost(json_get_text(o->record, "session"), e);
	json_decref(there);
	return rc;
}

static int check_is_own(const struct ownership *o, struct err *e)
{
	struct buf own = BUF_INIT, there = BUF_INIT;
	char key[SESSION_KEY_BYTES];
	struct store_get get = { .key = key, .sink = add_bytes, .arg = &there };
	int rc;

	record_key(json_get_text(o->record, "session"), o->n, key);
	begin_of_record(o->record, &own);
	get.len = own.len;
	get.deadline_mono_ns = store_within(STORE_PATIENCE_NS);
	rc = store_get(o->store, &get, NULL, e);
	if (!rc && (there.len != own.len || memcmp(there.data, own.data, own.len)))
		rc = check_whole(o, key, e);
	buf_release(&own);
	buf_release(&there);
	return rc;
}

int ownership_check(struct ownership *o, struct err *e)
{
	const char *session = json_get_text(o->record, "session");
	int64_t now_ns = elapsed_ns();
	bool is_there = true;
	int rc;

	if (o->looked_ns && now_ns - o->looked_ns < LOOK_AGAIN_NS)
		return 0;
	rc = ledger_check(o->store, o->record, o->n, &is_there, e);
	o->is_gone = !rc && !is_there;
	if (o->is_gone)
		return err_set(e, ERR_EXISTS, "another aggregator has ended session %s", session);
	if (!rc)
		rc = check_is_own(o, e);
	if (!rc)
		o->looked_ns = now_ns;
	return rc;
}

int ledger_remove(struct ownership *o, struct err *e)
{
	const char *session = json_get_text(o->record, "session");
	struct session_keys found = { 0 };
	int rc = list_records(o->store, session, &found, e);

	if (!rc && found.n && number_of(found.items[found.n - 1]) > o->n)
		rc = lost(session, e);
	for (size_t i = 0; i < found.n && !rc; i++) {
		rc = ownership_check(o, e);
		if (!rc)
			rc = session_remove_key(o->store, found.items[i], e);
	}
	session_keys_release(&found);
	return rc;
}
