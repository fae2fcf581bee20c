/* SPDX-License-Identifier: Apache-2.0 */
/* The index: keys that follow from names, entries that come back from the manifests, files found through it. */
#include "aggregator/sessions/index_check.h"
#include "aggregator/sessions/index_line.h"

#include <unistd.h>

#include "aggregator/sessions/ends.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "storage/store.h"
#include "storage/store_fault.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/store.h"

static int list_sessions(struct store *s, const char *run, const char *after, size_t limit,
			 json_t **doc, struct err *e)
{
	const struct session_query q = { .run = run, .after = after, .limit = limit };

	return session_list(s, &q, doc, e);
}

static const char old[] = "2025_12_31_23_59_59_zzzzzz", noon[] = "2026_11_21_12_00_00_bbbbbb",
		  noon_too[] = "2026_11_21_12_00_00_cccccc",
		  newest[] = "2026_11_21_13_00_00_aaaaaa";

static json_t *manifest_of(const char *name, const char *run, int complete)
{
	json_t *doc = json_pack("{s:s, s:s, s:i, s:[{s:s, s:[s]}]}", "session", name, "run", run,
				"complete", complete, "hosts", "host", "a", "files", "a.xplane.pb");

	CHECK(doc);
	return doc;
}

/* As far as the store lets it come. */
static int try_commit(struct store *s, const char *name, const char *run, struct err *e)
{
	json_t *record = json_pack("{s:i, s:s, s:s, s:{s:s, s:o}}", "version", LEDGER_VERSION,
				   "session", name, "run", run, "end", "state", "committed",
				   "document", manifest_of(name, run, 1));
	char key[SESSION_KEY_BYTES];
	unsigned int n = 0;
	int rc;

	session_file_key(name, run, "a", key);
	store_put_text(s, key, "events");
	CHECK_OK(ledger_put_end(s, record, &n, e), *e);
	rc = ledger_carry_out(s, record, n, e);
	json_decref(record);
	return rc;
}

static void commit(struct store *s, const char *name, const char *run)
{
	struct err e = { 0 };

	CHECK_OK(try_commit(s, name, run, &e), e);
}

static void commit_all(struct store *s)
{
	commit(s, noon, "");
	commit(s, old, "r");
	commit(s, newest, "r/s");
	commit(s, noon_too, "r");
}

/* Names in a list, less what they have in common with others: their last letters. */
static const char *listed(struct store *s, const char *run, const char *after, size_t limit)
{
	static char text[16];
	struct err e = { 0 };
	json_t *doc, *o;
	size_t i, n = 0;

	CHECK_OK(list_sessions(s, run, after, limit, &doc, &e), e);
	json_array_foreach(json_object_get(doc, "sessions"), i, o)
	{
		const char *name = json_get_text(o, "session");

		text[n++] = name[strlen(name) - 1];
	}
	text[n] = '\0';
	json_decref(doc);
	return text;
}

static bool has(struct store *s, const char *key)
{
	struct err e = { 0 };

	return !store_stat(s, key, any_time(), NULL, &e);
}

#define NOON_KEY "tutti/index/79738878/87/9999-2026_11_21_12_00_00_bbbbbb"
#define NOON_RUN "tutti/runs/~/79738878/87/9999-2026_11_21_12_00_00_bbbbbb"

static void test_keys(void)
{
	struct store *s = store_open_faulty();

	commit_all(s);
	CHECK(has(s, NOON_KEY "~1~0.0.1.1.0.0.0~"));
	CHECK(has(s, "tutti/index/79748768/76/4040-2025_12_31_23_59_59_zzzzzz~1~0.0.1.1.0.0.0~r"));
	CHECK(has(s, NOON_RUN "~1~0.0.1.1.0.0.0~"));
	CHECK(has(
		s,
		"tutti/runs/r~s/79738878/86/9999-2026_11_21_13_00_00_aaaaaa~1~0.0.1.1.0.0.0~r~s"));
	CHECK_STR(listed(s, NULL, NULL, 9), "abcz");
	CHECK_STR(listed(s, NULL, NULL, 1), "a");
	CHECK_STR(listed(s, NULL, newest, 2), "bc");
	CHECK_STR(listed(s, NULL, noon, 9), "cz");
	CHECK_STR(listed(s, "r", NULL, 9), "cz");
	CHECK_STR(listed(s, "r/s", NULL, 9), "a");
	CHECK_STR(listed(s, "r", noon_too, 9), "z");
	CHECK_STR(listed(s, "", NULL, 9), "b");
	CHECK_STR(listed(s, "s", NULL, 9), "");
	store_free(s);
}

/* All that a manifest says of a session in listings is in its line; what no manifest of ours says is bounded. */
static void test_line(void)
{
	json_t *doc = json_pack("{s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:I, s:[{}, {}]}", "session",
				noon, "run", "r/s", "t0_ns", (json_int_t)1795262400123456789,
				"duration_ns", (json_int_t)2000000000, "complete", 7, "partial", -1,
				"failed", 100000, "bytes", (json_int_t)INT64_MAX, "hosts");
	struct session_line line, read;
	char text[INDEX_LINE_BYTES];

	CHECK(doc);
	index_line_of(doc, &line);
	index_line_write(&line, text);
	CHECK_STR(text, "79738878/87/9999-2026_11_21_12_00_00_bbbbbb~1~1795262400123456789."
			"2000000000.2.7.0.99999.9223372036854775807~r~s");
	CHECK(index_line_read(text, &read));
	CHECK_STR(read.session, noon);
	CHECK_STR(read.run, "r/s");
	CHECK_EQ(read.t0_ns, 1795262400123456789);
	CHECK_EQ(read.duration_ns, 2000000000);
	CHECK_EQ(read.hosts, 2);
	CHECK_EQ(read.complete, 7);
	CHECK_EQ(read.failed, 99999);
	CHECK_EQ(read.bytes, INT64_MAX);
	json_decref(doc);
}

/* A page costs one call, however many sessions there are. */
static void test_cost(void)
{
	struct store *s = store_open_faulty();
	uint64_t before;

	commit_all(s);
	before = store_fault_calls(s);
	CHECK_STR(listed(s, NULL, newest, 2), "bc");
	CHECK_EQ(store_fault_calls(s) - before, 1);
	before = store_fault_calls(s);
	CHECK_STR(listed(s, "r", noon, 1), "c");
	CHECK_EQ(store_fault_calls(s) - before, 1);
	store_free(s);
}

/* How many hosts the listing says are complete. */
static int64_t complete_of(struct store *s, const char *session)
{
	struct err e = { 0 };
	int64_t complete = -1;
	json_t *doc, *o;
	size_t i;

	CHECK_OK(list_sessions(s, NULL, NULL, 9, &doc, &e), e);
	json_array_foreach(json_object_get(doc, "sessions"), i, o)
	{
		if (strcmp(json_get_text(o, "session"), session) != 0)
			continue;
		CHECK_EQ(complete, -1); /* it is listed once */
		complete = json_get_int(o, "complete");
	}
	json_decref(doc);
	return complete;
}

/* A session without a line that can be read is what its manifest says; without a manifest there is no such session. */
static void test_without_line(void)
{
	struct store *s = store_open_faulty();
	struct err e = { 0 };

	commit_all(s);
	CHECK_OK(store_remove(s, NOON_KEY "~1~0.0.1.1.0.0.0~", any_time(), &e), e);
	store_put_text(s, NOON_KEY, "{}"); /* of an older layout */
	store_put_text(s, NOON_KEY "~2~0.0.1.1.0.0.0~", "{}"); /* of a later one */
	store_put_text(s, "tutti/index/79738878/85/9999-2026_11_21_14_00_00_gggggg", "{}");
	store_put_text(s, "tutti/runs/r/79738878/85/9999-2026_11_21_14_00_00_gggggg", "");
	CHECK_STR(listed(s, NULL, NULL, 9), "abcz");
	CHECK_STR(listed(s, "r", NULL, 2), "cz");
	CHECK_EQ(complete_of(s, noon), 1);
	CHECK(has(s, NOON_KEY "~1~0.0.1.1.0.0.0~") && !has(s, NOON_KEY));
	CHECK_OK(store_fault_set(s, "get tutti/sessions/* fail", &e), e);
	CHECK_STR(listed(s, NULL, newest, 9), "bcz");
	store_free(s);
}

/* The index may only be read. */
static void test_read_only(void)
{
	struct store *s = store_open_faulty();
	struct err e = { 0 };

	commit_all(s);
	CHECK_OK(store_remove(s, NOON_KEY "~1~0.0.1.1.0.0.0~", any_time(), &e), e);
	store_put_text(s, NOON_KEY, "{}");
	CHECK_OK(store_fault_set(s, "write * fail", &e), e);
	CHECK_STR(listed(s, NULL, NULL, 9), "abcz");
	CHECK(!has(s, NOON_KEY "~1~0.0.1.1.0.0.0~"));
	store_free(s);
}

static void retry(struct store *s, struct err *e)
{
	json_t *record = json_pack("{s:i, s:s, s:s, s:i, s:[{s:s}], s:{s:s, s:o}}", "version",
				   LEDGER_VERSION, "session", noon, "run", "", "revision", 2,
				   "hosts", "host", "a", "end", "state", "committed", "document",
				   manifest_of(noon, "", 2));
	unsigned int n = 0;

	CHECK(record);
	CHECK_OK(ledger_put_end(s, record, &n, e), *e);
	if (!ledger_carry_out(s, record, n, e))
		*e = (struct err){ 0 };
	json_decref(record);
}

/* A commit that ends before its manifest, or before its line, lists nothing that cannot be read; and it can be carried
 * out once more. */
static void test_listed_is_readable(void)
{
	static const char *const rules[] = { "put tutti/sessions/* fail", "put tutti/index/* fail",
					     "put tutti/runs/* fail" };
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct store *s = store_open_faulty();
		json_t *manifest = NULL;
		bool is_listed;

		CHECK_OK(store_fault_set(s, rules[i], &e), e);
		CHECK(try_commit(s, noon, "", &e));
		CHECK_OK(store_fault_set(s, "", &e), e);
		is_listed = *listed(s, NULL, NULL, 9);
		CHECK(!is_listed ||
		      has(s, "tutti/sessions/2026_11_21_12_00_00_bbbbbb/manifest.json"));
		CHECK_OK(session_recover(s, noon, &manifest, &e), e);
		json_decref(manifest);
		CHECK_STR(listed(s, NULL, NULL, 9), "b");
		CHECK_STR(listed(s, "", NULL, 9), "b");
		store_free(s);
	}
}

/* A retry replaces the line. While there are two, the manifest says which of them is right. */
static void test_retry(void)
{
	static const char first[] = NOON_KEY "~1~0.0.1.1.0.0.0~",
			  second[] = NOON_KEY "~1~0.0.1.2.0.0.0~";
	struct store *s = store_open_faulty();
	struct err e = { 0 };

	commit_all(s);
	CHECK_OK(store_fault_set(s, "put tutti/sessions/* fail", &e), e);
	retry(s, &e);
	CHECK(e.code);
	CHECK_OK(store_fault_set(s, "", &e), e);
	CHECK(has(s, first) && has(s, second));
	CHECK_EQ(complete_of(s, noon), 1);
	CHECK(has(s, first) && has(s, second)); /* it is under way: a look removes nothing */
	CHECK(!session_recover(s, noon, &(json_t *){ NULL }, &e));
	CHECK(!has(s, first) && has(s, second));
	CHECK(!has(s, NOON_RUN "~1~0.0.1.1.0.0.0~") && has(s, NOON_RUN "~1~0.0.1.2.0.0.0~"));
	CHECK_EQ(complete_of(s, noon), 2);
	store_free(s);
}

/* A store that fails is no empty list. */
static void test_store_fails(void)
{
	struct store *s = store_open_faulty();
	struct err e = { 0 };
	json_t *doc;

	commit_all(s);
	CHECK_OK(store_fault_set(s, "list * fail", &e), e);
	CHECK_EQ(list_sessions(s, NULL, NULL, 9, &doc, &e), ERR_IO);
	store_put_text(s, "tutti/index/79738878/85/9999-2026_11_21_14_00_00_gggggg", "{}");
	CHECK_OK(store_fault_set(s, "get * fail", &e), e);
	CHECK_EQ(list_sessions(s, NULL, NULL, 9, &doc, &e), ERR_IO);
	store_free(s);
}

/* ---- the check at the start ---- */

static void check_index(struct store *s)
{
	struct jobs jobs = { 0 };
	struct index_check check;
	struct err e = { 0 };

	CHECK_OK(loop_new(&jobs.loop, 1, &e), e);
	index_check_start(&check, &jobs, s);
	RUN_UNTIL(jobs.loop, !jobs.n && !loop_timer_armed(&check.timer));
	index_check_stop(&check);
	index_check_release(&check);
	loop_free(jobs.loop);
}

static bool add_key(void *arg, const char *key, const struct store_stat *st)
{
	struct buf *keys = arg;

	(void)st;
	buf_add(keys, key, strlen(key) + 1);
	return true;
}

static size_t remove_all(struct store *s, const char *prefix)
{
	struct buf keys = BUF_INIT;
	struct err e = { 0 };
	size_t n = 0;

	CHECK_OK(list_keys(s, prefix, NULL, add_key, &keys, &e), e);
	for (size_t at = 0; at < keys.len; at += strlen((char *)keys.data + at) + 1, n++)
		CHECK_OK(store_remove(s, (char *)keys.data + at, any_time(), &e), e);
	buf_release(&keys);
	return n;
}

static void test_lost_index(void)
{
	static const char *const prefixes[] = { "tutti/index/", "tutti/runs/",
						"tutti/index/79738878/", "tutti/runs/r/" };
	struct store *s = store_open_faulty();
	uint64_t before;

	commit_all(s);
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		CHECK(remove_all(s, prefixes[i]) > 0);
		check_index(s);
		CHECK_STR(listed(s, NULL, NULL, 9), "abcz");
		CHECK_STR(listed(s, "r", NULL, 9), "cz");
	}
	before = store_fault_writes(s);
	check_index(s);
	CHECK_EQ(store_fault_writes(s), before);
	store_free(s);
}

/* More than a round has, of a store that fails at first. */
static void test_lost_index_of_many(void)
{
	struct store *s = store_open_faulty();
	struct err e = { 0 };
	json_t *doc;

	for (int i = 0; i < 300; i++) {
		char name[SESSION_NAME_BYTES];

		snprintf(name, sizeof(name), "2026_11_%02d_%02d_00_00_abc123", 1 + i % 28, i / 28);
		commit(s, name, i % 2 ? "odd" : "");
	}
	CHECK_EQ(remove_all(s, "tutti/index/"), 300);
	CHECK_OK(store_fault_set(s, "list * fail times=1\nput * fail skip=70 times=1", &e), e);
	check_index(s);
	CHECK_OK(list_sessions(s, NULL, NULL, 1000, &doc, &e), e);
	CHECK_EQ(json_array_size(json_object_get(doc, "sessions")), 300);
	json_decref(doc);
	CHECK_OK(list_sessions(s, "odd", NULL, 1000, &doc, &e), e);
	CHECK_EQ(json_array_size(json_object_get(doc, "sessions")), 150);
	json_decref(doc);
	store_free(s);
}

/* Lines that a crash left, and entries that were read, go. */
static void test_other_lines(void)
{
	struct store *s = store_open_faulty();
	struct err e = { 0 };

	commit_all(s);
	store_put_text(s, NOON_KEY "~1~0.0.1.9.0.0.0~", "{}");
	store_put_text(s, NOON_RUN "~1~0.0.1.9.0.0.0~", "{}");
	remove_all(s, "tutti/index/79748768/");
	remove_all(s, "tutti/runs/r/79748768/");
	store_put_text(s, "tutti/index/79748768/76/4040-2025_12_31_23_59_59_zzzzzz", "{}");
	store_put_text(s, "tutti/runs/r/79748768/76/4040-2025_12_31_23_59_59_zzzzzz", "{}");
	check_index(s);
	CHECK_OK(store_fault_set(s, "get * fail", &e), e);
	CHECK_STR(listed(s, NULL, NULL, 9), "abcz");
	CHECK_STR(listed(s, "r", NULL, 9), "cz");
	CHECK_EQ(complete_of(s, noon), 1);
	CHECK_EQ(remove_all(s, "tutti/index/"), 4);
	CHECK_EQ(remove_all(s, "tutti/runs/"), 4);
	store_free(s);
}

/* Its sessions are listed, and its entries go. What it does not know, it leaves. */
static void test_older_layout(void)
{
	struct store *s = store_open_faulty();

	commit_all(s);
	remove_all(s, "tutti/index/");
	store_put_text(s, "tutti/index/08204744560999999999-2026_11_21_12_00_00_bbbbbb", "{}");
	store_put_text(s, "tutti/index/README", "what?");
	store_put_text(s, "tutti/sessions/by-hand/manifest.json", "{}");
	store_put_text(s, "tutti/sessions/2026_11_22_12_00_00_dddddd/manifest.json", "damaged");
	check_index(s);
	CHECK_STR(listed(s, NULL, NULL, 9), "abcz");
	CHECK(!has(s, "tutti/index/08204744560999999999-2026_11_21_12_00_00_bbbbbb"));
	CHECK(has(s, "tutti/index/README"));
	CHECK(has(s, "tutti/sessions/2026_11_22_12_00_00_dddddd/manifest.json"));
	store_free(s);
}

/* ---- files ---- */

static int open_file(struct store *s, const char *session, const char *file, struct err *e)
{
	struct session_file found;
	int rc = session_find_file(s, session, file, &found, e);

	if (!rc) {
		CHECK_EQ(found.size, 6);
		CHECK(*found.tag);
	}
	return rc;
}

static void test_open_file(void)
{
	struct store *s = store_open_faulty();
	struct err e = { 0 };
	json_t *retry;
	unsigned int n = 0;

	commit_all(s);
	/* The manifest may be large: it is not read. */
	CHECK_OK(store_fault_set(s, "get tutti/sessions/* fail", &e), e);
	CHECK_OK(open_file(s, noon, "a.xplane.pb", &e), e);
	CHECK_OK(open_file(s, newest, "a.xplane.pb", &e), e);
	CHECK_EQ(open_file(s, noon, "b.xplane.pb", &e), ERR_NOT_FOUND);
	CHECK_STR(e.msg, "session 2026_11_21_12_00_00_bbbbbb has no file b.xplane.pb");
	CHECK_EQ(open_file(s, "2026_11_21_12_00_00_eeeeee", "a.xplane.pb", &e), ERR_NOT_FOUND);
	CHECK_STR(e.msg, "there is no session 2026_11_21_12_00_00_eeeeee");
	/* Only files of hosts: no cache of XProf, no path. */
	store_put_text(s, "profiles/plugins/profile/2026_11_21_12_00_00_bbbbbb/a.hlo_proto.pb",
		       "cached");
	CHECK_EQ(open_file(s, noon, "a.hlo_proto.pb", &e), ERR_NOT_FOUND);
	CHECK_EQ(open_file(s, noon, "../2026_11_21_12_00_00_cccccc/a.xplane.pb", &e),
		 ERR_NOT_FOUND);
	CHECK_EQ(open_file(s, noon, ".xplane.pb", &e), ERR_NOT_FOUND);
	/* The file of a capture that is not committed. */
	store_put_text(s, "profiles/plugins/profile/2026_11_21_12_00_00_eeeeee/a.xplane.pb",
		       "events");
	CHECK_EQ(open_file(s, "2026_11_21_12_00_00_eeeeee", "a.xplane.pb", &e), ERR_NOT_FOUND);
	/* A retry may have put files that are no part of the session yet. */
	CHECK_OK(store_fault_set(s, "", &e), e);
	retry = json_pack("{s:i}", "revision", 2);
	CHECK_OK(ledger_put(s, noon, retry, &n, &e), e);
	store_put_text(s, "profiles/plugins/profile/2026_11_21_12_00_00_bbbbbb/b.xplane.pb",
		       "events");
	CHECK_OK(open_file(s, noon, "a.xplane.pb", &e), e);
	CHECK_EQ(open_file(s, noon, "b.xplane.pb", &e), ERR_NOT_FOUND);
	json_decref(retry);
	/* Without the index the manifest tells the run. */
	remove_all(s, "tutti/index/");
	CHECK_OK(open_file(s, newest, "a.xplane.pb", &e), e);
	CHECK_OK(store_fault_set(s, "stat * fail", &e), e);
	CHECK_EQ(open_file(s, newest, "a.xplane.pb", &e), ERR_IO);
	store_free(s);
}

int main(void)
{
	test_keys();
	test_cost();
	test_line();
	test_without_line();
	test_read_only();
	test_listed_is_readable();
	test_retry();
	test_store_fails();
	test_lost_index();
	test_lost_index_of_many();
	test_other_lines();
	test_older_layout();
	test_open_file();
	return 0;
}
