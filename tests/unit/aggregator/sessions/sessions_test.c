/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/ends.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/pins.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"
#include "storage/store.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"

static int list_sessions(struct store *s, const char *run, const char *after, size_t limit,
			 json_t **doc, struct err *e)
{
	const struct session_query q = { .run = run, .after = after, .limit = limit };

	return session_list(s, &q, doc, e);
}

static bool count_key(void *arg, const char *key, const struct store_stat *st)
{
	(void)key;
	(void)st;
	(*(size_t *)arg)++;
	return true;
}

static size_t count(struct store *s)
{
	struct err e = { 0 };
	size_t n = 0;

	CHECK_OK(list_keys(s, "", NULL, count_key, &n, &e), e);
	return n;
}

/* A session with one host, in the order of a real one; `step` 1 stops before the commit. */
static void make(struct store *s, char name[SESSION_NAME_BYTES], int64_t t0_ns, const char *run,
		 int steps)
{
	char key[SESSION_KEY_BYTES];
	json_t *doc, *record;
	struct err e = { 0 };
	unsigned int n = 0;

	name_make_session(t0_ns, name);
	doc = json_pack("{s:s, s:s, s:I, s:I, s:[{s:s, s:s}], s:i}", "session", name, "run", run,
			"t0_ns", (json_int_t)t0_ns, "bytes", (json_int_t)1, "hosts", "host", "a",
			"file", "a.xplane.pb", "complete", 1);
	record = json_pack("{s:i, s:s, s:s, s:{}, s:{s:s, s:o}}", "version", LEDGER_VERSION,
			   "session", name, "run", run, "plan", "end", "state", "committed",
			   "document", doc);
	CHECK(record);
	CHECK_OK(ledger_put(s, name, record, &n, &e), e);
	session_file_key(name, run, "a", key);
	store_put_text(s, key, "x");
	if (steps > 1)
		CHECK_OK(ledger_carry_out(s, record, n, &e), e);
	json_decref(record);
}

/* ---- a session that comes as a whole ---- */

struct whole {
	struct store *store;
	const char *session;
	size_t n_good; /* files that can be put */
};

static int put_files(void *arg, struct err *e)
{
	static const char *const hosts[] = { "a", "b", "c" };
	const struct whole *w = arg;
	char key[SESSION_KEY_BYTES];

	CHECK(count(w->store)); /* a crash would leave a record of what is to be removed */
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		if (i == w->n_good)
			return err_set(e, ERR_FULL, "no space");
		session_file_key(w->session, "r", hosts[i], key);
		store_put_text(w->store, key, "x");
	}
	return 0;
}

/* All of it is there, or nothing. */
static void test_whole(void)
{
	for (size_t n_good = 0; n_good <= 3; n_good++) {
		char name[SESSION_NAME_BYTES];
		struct store *s = store_open_faulty();
		struct whole files = { s, name, n_good };
		struct session_whole w = { .nonce = "n", .put_files = put_files, .arg = &files };
		struct err e = { 0 };
		json_t *doc = NULL;
		bool begun = false;
		int rc;

		name_make_session(now_real_ns(), name);
		w.manifest = json_pack("{s:s, s:s, s:I, s:I, s:[], s:i}", "session", name, "run",
				       "r", "t0_ns", (json_int_t)now_real_ns(), "bytes",
				       (json_int_t)3, "hosts", "complete", 3);
		rc = session_put_whole(s, &w, &begun, &e);
		CHECK(begun);
		CHECK_EQ(rc, n_good == 3 ? 0 : ERR_FULL);
		if (rc) {
			CHECK_EQ(count(s), 0);
			CHECK_EQ(session_load_manifest(s, name, &doc, &e), ERR_NOT_FOUND);
		} else {
			CHECK_OK(session_load_manifest(s, name, &doc, &e), e);
			CHECK_EQ(json_integer_value(json_object_get(doc, "complete")), 3);
		}
		json_decref(doc);
		json_decref(w.manifest);
		store_free(s);
	}
}

/* The names in a list, as "1 0 2", by their place in `names`. */
static const char *listed(struct store *s, char names[][SESSION_NAME_BYTES], size_t n,
			  const char *run, const char *after, size_t limit)
{
	static char text[256];
	struct err e = { 0 };
	json_t *doc, *o;
	size_t i;

	CHECK_OK(list_sessions(s, run, after, limit, &doc, &e), e);
	text[0] = '\0';
	json_array_foreach(json_object_get(doc, "sessions"), i, o)
	{
		const char *name = json_string_value(json_object_get(o, "session"));
		size_t at = 0;

		while (at < n && strcmp(names[at], name))
			at++;
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%zu", i ? " " : "",
			 at);
	}
	json_decref(doc);
	return text;
}

static void test_names(void)
{
	char a[SESSION_NAME_BYTES], b[SESSION_NAME_BYTES], key[SESSION_KEY_BYTES];

	name_make_session(1795255439 * NS_PER_S, a);
	name_make_session(1795255439 * NS_PER_S, b);
	CHECK(name_is_session(a));
	CHECK(strcmp(a, b));
	CHECK(!memcmp(a, "2026_11_21_", 11));
	session_file_key("S", "", "h", key);
	CHECK_STR(key, "profiles/plugins/profile/S/h.xplane.pb");
	session_file_key("S", "x/y", "h", key);
	CHECK_STR(key, "profiles/x/y/plugins/profile/S/h.xplane.pb");
}

static void test_list(void)
{
	char names[5][SESSION_NAME_BYTES];
	struct store *s = store_open_faulty();
	bool begun;
	struct err e = { 0 };

	CHECK_STR(listed(s, names, 0, NULL, NULL, 10), "");
	make(s, names[0], 1000 * NS_PER_S, "", 2);
	make(s, names[1], 3000 * NS_PER_S, "r", 2);
	make(s, names[2], 2000 * NS_PER_S, "", 2);
	make(s, names[3], 2001 * NS_PER_S, "r", 2);
	make(s, names[4], 9000 * NS_PER_S, "", 1);
	CHECK_STR(listed(s, names, 5, NULL, NULL, 10), "1 3 2 0");
	CHECK_STR(listed(s, names, 5, NULL, NULL, 2), "1 3");
	CHECK_STR(listed(s, names, 5, NULL, names[3], 10), "2 0");
	CHECK_STR(listed(s, names, 5, "r", NULL, 10), "1 3");
	CHECK_STR(listed(s, names, 5, "", NULL, 10), "2 0");
	CHECK_STR(listed(s, names, 5, "none", NULL, 10), "");
	/* What is no entry hides no session. */
	store_put_text(s, "tutti/index/00000000000000000001-2026_01_01_00_00_00_zzzzzz", "x");
	store_put_text(s, "tutti/index/what", "x");
	store_put_text(s, "tutti/runs/r/what", "x");
	CHECK_STR(listed(s, names, 5, NULL, NULL, 10), "1 3 2 0");
	/* After a session that is gone, or never was. */
	CHECK_OK(session_delete(s, names[3], &begun, &e), e);
	CHECK_STR(listed(s, names, 5, NULL, names[3], 10), "2 0");
	CHECK_STR(listed(s, names, 5, "r", names[3], 10), "");
	CHECK_STR(listed(s, names, 5, NULL, "1970_01_01_00_40_00_zzzzzz", 10), "2 0");
	CHECK_STR(listed(s, names, 5, "r", "1970_01_01_00_51_00_zzzzzz", 10), "1");
	store_free(s);
}

static void test_delete(void)
{
	char names[2][SESSION_NAME_BYTES], key[SESSION_KEY_BYTES];
	struct store *s = store_open_faulty();
	bool begun;
	struct err e = { 0 };
	json_t *doc;
	size_t before;

	make(s, names[0], 1000 * NS_PER_S, "r", 2);
	before = count(s);
	make(s, names[1], 1000 * NS_PER_S, "r", 2);
	/* What XProf leaves beside the files, and a viewer index. */
	session_directory(names[1], "r", key);
	strncat(key, "ALL_HOSTS.op_stats_v2.pb", 64);
	store_put_text(s, key, "x");
	snprintf(key, sizeof(key), "tutti/sessions/%s/a.tvx", names[1]);
	store_put_text(s, key, "x");
	CHECK_OK(session_delete(s, names[1], &begun, &e), e);
	CHECK_EQ(count(s), before);
	CHECK_STR(listed(s, names, 2, NULL, NULL, 10), "0");
	CHECK_EQ(session_load_manifest(s, names[1], &doc, &e), ERR_NOT_FOUND);
	CHECK_EQ(session_delete(s, names[1], &begun, &e), ERR_NOT_FOUND);
	store_free(s);
}

/* The oldest are forgotten. */
static void test_failures(void)
{
	static const char first[] = "2026_11_21_12_00_00_abc123";
	json_t *doc = json_object(), *record;
	struct store *s = store_open_faulty();
	struct err e = { 0 };

	CHECK_EQ(session_load_failure(s, first, &record, &e), ERR_NOT_FOUND);
	CHECK_OK(session_record_failure(s, first, doc, &e), e);
	CHECK_OK(session_load_failure(s, first, &record, &e), e);
	json_decref(record);
	for (int i = 0; i < 300; i++) {
		char later[SESSION_NAME_BYTES];

		snprintf(later, sizeof(later), "2026_11_21_13_%02d_%02d_abc123", i / 60, i % 60);
		CHECK_OK(session_record_failure(s, later, doc, &e), e);
	}
	CHECK_EQ(session_load_failure(s, first, &record, &e), ERR_NOT_FOUND);
	CHECK_OK(session_load_failure(s, "2026_11_21_13_04_59_abc123", &record, &e), e);
	CHECK_EQ(count(s), 256);
	json_decref(record);
	json_decref(doc);
	store_free(s);
}

static bool has_file(struct store *s, const char *session, const char *run, const char *host)
{
	char key[SESSION_KEY_BYTES];
	struct err e = { 0 };
	int rc;

	session_file_key(session, run, host, key);
	rc = store_stat(s, key, any_time(), NULL, &e);
	CHECK(!rc || rc == ERR_NOT_FOUND);
	return !rc;
}

static void put_late(struct store *s, const char *session, const char *run)
{
	char key[SESSION_KEY_BYTES];

	session_file_key(session, run, "late", key);
	store_put_text(s, key, "x");
	session_directory(session, run, key);
	strncat(key, "ALL_HOSTS.op_stats_v2.pb", 64);
	store_put_text(s, key, "x");
}

/* Files that came after the end of their session go, where it ended since then and is not under way. None goes because
 * something says that there is no manifest, which the store lists. */
static void test_late(void)
{
	static const char failed[] = "1970_01_01_01_00_00_abc123";
	char names[3][SESSION_NAME_BYTES];
	struct store *s = store_open_faulty();
	json_t *failure = json_pack("{s:s, s:s}", "session", failed, "run", "r");
	struct err e = { 0 };
	int64_t now_ns;

	for (int i = 0; i < 3; i++) /* the last one is under way */
		make(s, names[i], (1000 + i) * NS_PER_S, i ? "r" : "", i < 2 ? 2 : 1);
	CHECK_OK(session_record_failure(s, failed, failure, &e), e);
	for (int i = 0; i < 3; i++)
		put_late(s, names[i], i ? "r" : "");
	put_late(s, failed, "r");
	now_ns = now_real_ns();
	CHECK_OK(session_remove_late_since(s, now_ns + 60 * NS_PER_S, &e), e);
	CHECK(has_file(s, names[0], "", "late") && has_file(s, failed, "r", "late"));
	store_set_rules(s, "get,stat tutti/sessions/*/manifest.json missing");
	CHECK_EQ(session_remove_late_since(s, now_ns - 60 * NS_PER_S, &e), ERR_PEER);
	CHECK_OK(session_remove_orphans(s, failed, "x", &e), e);
	CHECK_EQ(session_remove_orphans(s, names[0], "", &e), ERR_PEER);
	CHECK(has_file(s, names[0], "", "a") && has_file(s, names[1], "r", "a"));
	store_set_rules(s, "");
	CHECK_OK(session_remove_late_since(s, now_ns - 60 * NS_PER_S, &e), e);
	CHECK(!has_file(s, names[0], "", "late") && !has_file(s, names[1], "r", "late"));
	CHECK(has_file(s, names[0], "", "a") && has_file(s, names[1], "r", "a"));
	CHECK(has_file(s, names[2], "r", "late") && has_file(s, names[2], "r", "a"));
	CHECK(!has_file(s, failed, "r", "late"));
	json_decref(failure);
	store_free(s);
}

/* A commit that is told that there is nothing else lists no files. */
static void test_tidy(void)
{
	static const char name[] = "1970_01_01_01_00_00_abc123";
	struct store *s = store_open_faulty();
	struct err e = { 0 };

	for (int tidy = 0; tidy < 2; tidy++) {
		unsigned int n = 0;
		json_t *doc = json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "session", name, "run", "",
					"hosts", "host", "a", "file", "a.xplane.pb");
		json_t *record = json_pack("{s:i, s:s, s:s, s:{}, s:[{s:s}], s:{s:s, s:o}}",
					   "version", LEDGER_VERSION, "session", name, "run", "",
					   "plan", "hosts", "host", "a", "end", "state",
					   "committed", "document", doc);
		char key[SESSION_KEY_BYTES];
		bool begun;

		if (tidy)
			json_object_set_new(json_object_get(record, "end"), "tidy", json_true());
		session_file_key(name, "", "a", key);
		store_put_text(s, key, "x");
		session_file_key(name, "", "a~2", key);
		store_put_text(s, key, "x");
		CHECK_OK(ledger_put(s, name, record, &n, &e), e);
		CHECK_OK(ledger_carry_out(s, record, n, &e), e);
		CHECK(has_file(s, name, "", "a"));
		CHECK_EQ(has_file(s, name, "", "a~2"), tidy);
		CHECK_OK(session_delete(s, name, &begun, &e), e);
		CHECK_EQ(count(s), 0);
		json_decref(record);
	}
	store_free(s);
}

/* A pin of what is no session would keep nothing, and stay for ever. */
static void test_pins_are_of_sessions(void)
{
	static const char unknown[] = "2026_11_21_12_00_00_abc123";
	char name[SESSION_NAME_BYTES];
	struct err e = { 0 };
	bool is_pinned = true;
	struct store *s;

	CHECK_OK(store_open(&s, "mem://test", &e), e);
	CHECK_EQ(session_pin(s, unknown, &e), ERR_NOT_FOUND);
	CHECK_EQ(session_unpin(s, unknown, &e), ERR_NOT_FOUND);
	CHECK_EQ(count(s), 0);
	CHECK_OK(session_is_pinned(s, unknown, &is_pinned, &e), e);
	CHECK(!is_pinned);
	make(s, name, INT64_C(1790000000000000000), "", 9);
	CHECK_OK(session_pin(s, name, &e), e);
	CHECK_OK(session_is_pinned(s, name, &is_pinned, &e), e);
	CHECK(is_pinned);
	CHECK_OK(session_unpin(s, name, &e), e);
	CHECK_OK(session_is_pinned(s, name, &is_pinned, &e), e);
	CHECK(!is_pinned);
	store_free(s);
}

int main(void)
{
	test_names();
	test_list();
	test_delete();
	test_failures();
	test_late();
	test_whole();
	test_tidy();
	test_pins_are_of_sessions();
	return 0;
}
