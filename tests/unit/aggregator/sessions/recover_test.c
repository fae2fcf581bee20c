/* SPDX-License-Identifier: Apache-2.0 */
/* Records of ledgers, and what the next start makes of those that a crash left. */
#include <stdio.h>
#include <string.h>

#include "aggregator/sessions/ends.h"
#include "aggregator/sessions/ledger_record.h"
#include "base/buf.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "storage/store_fault.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"

#define NAME "2026_11_21_12_00_00_abc123"
#define LINE "~1~5.0.1.0.0.0.0~r"

static bool append_key(void *arg, const char *key, const struct store_stat *st)
{
	(void)st;
	buf_addf(arg, "%s%s", ((struct buf *)arg)->len ? " " : "", key);
	return true;
}

/* All keys, with a space between two. */
static const char *keys(struct store *s)
{
	static char text[2000];
	struct buf b = BUF_INIT;
	struct err e = { 0 };

	CHECK_OK(list_keys(s, "", NULL, append_key, &b, &e), e);
	snprintf(text, sizeof(text), "%s", buf_str(&b));
	buf_release(&b);
	return text;
}

static void put_file(struct store *s, const char *file)
{
	char key[SESSION_KEY_BYTES];

	session_file_key(NAME, "r", file, key);
	store_put_text(s, key, "x");
}

/* A new record of this owner; `end` is a state or NULL. */
static json_t *record_of(const char *nonce, const char *end, int revision)
{
	json_t *o = json_pack("{s:i, s:s, s:s, s:{s:i, s:s}, s:i, s:{}, s:[{s:s}, {s:s}]}",
			      "version", LEDGER_VERSION, "session", NAME, "run", "r", "owner",
			      "epoch", 1, "nonce", nonce, "revision", revision, "plan", "hosts",
			      "host", "a", "host", "b");

	CHECK(o);
	if (end)
		json_put(o, "end",
			 json_pack("{s:s, s:{s:s, s:s, s:I, s:i, s:[{s:s, s:s}]}}", "state", end,
				   "document", "session", NAME, "run", "r", "t0_ns", (json_int_t)5,
				   "revision", revision, "hosts", "host", "a", "file",
				   "a.xplane.pb"));
	return o;
}

/* The same as it is written now: its hosts are in its document alone. */
static json_t *end_of(const char *end, int revision)
{
	json_t *o = record_of("x", end, revision);
	json_t *document = json_object_get(json_object_get(o, "end"), "document");

	json_array_append_new(json_object_get(document, "hosts"), json_pack("{s:s}", "host", "b"));
	json_put_int(o, "version", LEDGER_END_VERSION);
	json_object_del(o, "plan");
	json_object_del(o, "hosts");
	return o;
}

static int put_record(struct store *s, json_t *record_taken, unsigned int *n, struct err *e)
{
	int rc = ledger_put(s, NAME, record_taken, n, e);

	json_decref(record_taken);
	return rc;
}

/* Puts one as the only owner. */
static void leave(struct store *s, json_t *record_taken)
{
	struct err e = { 0 };
	unsigned int n = 0;

	CHECK_OK(put_record(s, record_taken, &n, &e), e);
}

static json_t *recover(struct store *s)
{
	json_t *left = NULL;
	struct err e = { 0 };

	CHECK_OK(session_recover(s, NAME, &left, &e), e);
	return left;
}

/* ---- records ---- */

static void test_highest_holds(void)
{
	struct store *s = store_open_faulty();
	json_t *found = NULL;
	unsigned int n = 0;
	struct err e = { 0 };

	CHECK_EQ(ledger_load(s, NAME, &found, &n, &e), ERR_NOT_FOUND);
	CHECK_OK(put_record(s, record_of("x", NULL, 1), &n, &e), e);
	CHECK_OK(put_record(s, record_of("x", NULL, 2), &n, &e), e);
	CHECK_EQ(n, 2);
	CHECK_STR(keys(s), "tutti/ledger/" NAME ".000002.json");
	/* A crash before the older one is removed. */
	store_put_text(s, "tutti/ledger/" NAME ".000001.json", "{}");
	n = 0;
	CHECK_OK(ledger_load(s, NAME, &found, &n, &e), e);
	CHECK_EQ(n, 2);
	CHECK_EQ(json_get_int(found, "revision"), 2);
	CHECK_OK(ledger_remove(&(struct ownership){ .store = s, .record = found, .n = n }, &e), e);
	CHECK_STR(keys(s), "");
	json_decref(found);
	store_free(s);
}

static void test_damaged_and_unknown(void)
{
	struct store *s = store_open_faulty();
	json_t *found = NULL;
	unsigned int n = 0;
	struct err e = { 0 };

	CHECK_OK(put_record(s, record_of("x", NULL, 1), &n, &e), e);
	store_put_text(s, "tutti/ledger/" NAME ".000002.json", "{ damaged");
	CHECK_OK(ledger_load(s, NAME, &found, &n, &e), e);
	CHECK_EQ(n, 2); /* the next one is number 3 */
	json_decref(found);
	store_put_text(s, "tutti/ledger/" NAME ".000003.json", "{\"version\":7}");
	CHECK_EQ(ledger_load(s, NAME, &found, &n, &e), ERR_UNSUPPORTED);
	CHECK(strstr(e.msg, NAME ".000003.json has version 7"));
	store_free(s);
}

/* What would be calculated with is refused as damaged, and stays. */
static void test_out_of_range(void)
{
	static const struct {
		const char *member, *json, *error;
	} cases[] = {
		{ "plan", "{\"t0_ns\": -1}", "t0_ns" },
		{ "plan", "{\"deadline_ns\": 9223372036854775807}", "deadline_ns" },
		{ "plan", "{\"duration_ns\": 1e300}", "duration_ns" },
		{ "plan", "{\"at_step\": {\"guard_ns\": \"x\"}}", "guard_ns" },
		{ "owner", "{\"epoch\": 9223372036854775807}", "epoch" },
		{ "hosts", "[]", "0 hosts" },
		{ "hosts", "[{\"host\": \"../a\"}]", "../a" },
		{ "hosts", "[{\"host\": \"b\"}, {\"host\": \"a\"}]", "is not after" },
		{ "hosts", "[{\"host\": \"a\", \"t0_ns\": -5}]", "host 'a'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct store *s = store_open_faulty();
		json_t *record = record_of("x", NULL, 1), *left = NULL;
		struct err e = { 0 };

		json_put(record, cases[i].member, json_loads(cases[i].json, JSON_DECODE_ANY, NULL));
		leave(s, record);
		put_file(s, "a");
		CHECK_EQ(session_recover(s, NAME, &left, &e), ERR_INVALID);
		CHECK(strstr(e.msg, cases[i].error));
		CHECK(strstr(e.msg, NAME));
		CHECK(strstr(keys(s), "/a.xplane.pb") && strstr(keys(s), ".000001.json"));
		store_free(s);
	}
}

/* The put takes place and its answer is lost: the next try finds it. */
static void test_answer_lost(void)
{
	struct store *s = store_open_faulty();
	unsigned int n = 0;
	struct err e = { 0 };

	store_set_rules(s, "put * lose times=1");
	CHECK_EQ(put_record(s, record_of("x", NULL, 1), &n, &e), ERR_TIMEOUT);
	CHECK_EQ(n, 0);
	CHECK_OK(put_record(s, record_of("x", NULL, 1), &n, &e), e);
	CHECK_EQ(n, 1);
	/* The next try has something else to say. */
	store_set_rules(s, "put * lose times=1");
	CHECK_EQ(put_record(s, record_of("x", NULL, 2), &n, &e), ERR_TIMEOUT);
	CHECK_OK(put_record(s, record_of("x", NULL, 3), &n, &e), e);
	CHECK_EQ(n, 3);
	CHECK_STR(keys(s), "tutti/ledger/" NAME ".000003.json");
	store_free(s);
}

/* Whoever comes second has lost the session, however many records the other one has removed since. */
static void test_two_owners(void)
{
	struct store *s = store_open_faulty();
	unsigned int x = 0, y;
	struct err e = { 0 };

	CHECK_OK(put_record(s, record_of("x", NULL, 1), &x, &e), e);
	y = x;
	CHECK_OK(put_record(s, record_of("y", NULL, 2), &y, &e), e);
	CHECK_EQ(put_record(s, record_of("x", NULL, 3), &x, &e), ERR_EXISTS);
	CHECK(strstr(e.msg, "another aggregator"));
	CHECK_OK(put_record(s, record_of("y", NULL, 4), &y, &e), e);
	CHECK_OK(put_record(s, record_of("y", NULL, 5), &y, &e), e);
	CHECK_EQ(put_record(s, record_of("x", NULL, 6), &x, &e), ERR_EXISTS);
	CHECK_EQ(x, 1);
	CHECK_OK(put_record(s, record_of("y", NULL, 7), &y, &e), e);
	CHECK_STR(keys(s), "tutti/ledger/" NAME ".000005.json");
	store_free(s);
}

/* ---- what a crash left ---- */

/* ---- a listing that is behind ---- */

struct behind {
	struct store base;
	struct store *real;
	const char *hidden; /* part of a key that is there and not listed */
	const char *ghost; /* a key that is listed and not there */
	const struct store_list *list;
};

static bool list_one(void *arg, const char *key, const struct store_stat *st)
{
	const struct behind *b = arg;

	return (b->hidden && strstr(key, b->hidden)) || b->list->each(b->list->arg, key, st);
}

static int behind_list(struct store *s, const struct store_list *list, struct err *e)
{
	struct behind *b = (struct behind *)s;
	struct store_list inner = *list;
	const struct store_stat st = { .size = 1 };
	int rc;

	b->list = list;
	inner.each = list_one;
	inner.arg = b;
	rc = store_list(b->real, &inner, e);
	if (!rc && b->ghost)
		(void)list->each(list->arg, b->ghost, &st);
	return rc;
}

static int behind_put(struct store *s, const struct store_put *put, struct store_stat *out,
		      struct err *e)
{
	return store_put(((struct behind *)s)->real, put, out, e);
}

static int behind_get(struct store *s, const struct store_get *get, struct store_stat *out,
		      struct err *e)
{
	return store_get(((struct behind *)s)->real, get, out, e);
}

static int behind_stat(struct store *s, const char *key, int64_t deadline_mono_ns,
		       struct store_stat *out, struct err *e)
{
	return store_stat(((struct behind *)s)->real, key, deadline_mono_ns, out, e);
}

static int behind_remove(struct store *s, const char *key, int64_t deadline_mono_ns, struct err *e)
{
	return store_remove(((struct behind *)s)->real, key, deadline_mono_ns, e);
}

static const struct store_ops behind_ops = {
	.scheme = "behind",
	.put = behind_put,
	.get = behind_get,
	.stat = behind_stat,
	.list = behind_list,
	.remove = behind_remove,
};

/* The session is neither given up nor forgotten. */
static void test_listing_is_behind(void)
{
	struct behind b = { .base.ops = &behind_ops, .real = store_open_faulty() };
	json_t *left = NULL;
	struct err e = { 0 };
	unsigned int n = 0;

	CHECK_OK(put_record(b.real, record_of("x", NULL, 1), &n, &e), e);
	b.hidden = ".000001.";
	CHECK_OK(put_record(&b.base, record_of("x", NULL, 1), &n, &e), e);
	CHECK_EQ(n, 2);
	b = (struct behind){ .base.ops = &behind_ops, .real = b.real };
	b.ghost = "tutti/ledger/" NAME ".000003.json";
	CHECK_EQ(session_recover(&b.base, NAME, &left, &e), ERR_BUSY);
	CHECK(strstr(e.msg, "is being replaced"));
	b.ghost = NULL;
	left = recover(&b.base);
	CHECK(left);
	json_decref(left);
	store_free(b.real);
}

static void test_carried_on(void)
{
	struct store *s = store_open_faulty();
	const json_t *stored;
	json_t *left;

	leave(s, record_of("x", NULL, 1));
	put_file(s, "host-a");
	put_file(s, "host-a~2");
	put_file(s, "host-b~2");
	left = recover(s);
	stored = json_object_get(left, "stored");
	CHECK_EQ(json_get_int(left, "ledger"), 1);
	CHECK_STR(json_get_text(json_object_get(left, "record"), "session"), NAME);
	CHECK(json_object_get(stored, "host-a.xplane.pb"));
	CHECK(json_object_get(stored, "host-a~2.xplane.pb"));
	/* The aggregator was killed before it had all of host-b's. */
	CHECK_EQ(json_object_size(stored), 2);
	CHECK(!strstr(keys(s), "host-b"));
	json_decref(left);
	store_free(s);
}

static void check_committed(json_t *record_taken, const char *line)
{
	struct store *s = store_open_faulty();
	char expected[2000];

	put_file(s, "a");
	put_file(s, "a~2"); /* of uploads that failed */
	put_file(s, "b");
	put_file(s, "other"); /* no host of this session */
	leave(s, record_taken);
	/* The store fails at each step once. */
	for (int i = 0; i < 8; i++) {
		char rules[60];
		json_t *left = NULL;
		struct err e;

		snprintf(rules, sizeof(rules), "* * fail skip=%d times=1", i);
		store_set_rules(s, rules);
		if (!session_recover(s, NAME, &left, &e))
			break;
		CHECK_EQ(e.code, ERR_IO);
	}
	store_set_rules(s, "");
	CHECK(!recover(s));
	snprintf(expected, sizeof(expected),
		 "profiles/r/plugins/profile/" NAME "/a.xplane.pb "
		 "profiles/r/plugins/profile/" NAME "/other.xplane.pb "
		 "tutti/index/79738878/87/9999-" NAME "%s"
		 " tutti/runs/r/79738878/87/9999-" NAME "%s tutti/sessions/" NAME "/manifest.json",
		 line, line);
	CHECK_STR(keys(s), expected);
	store_free(s);
}

static void test_committed(void)
{
	check_committed(record_of("x", "committed", 1), LINE);
	check_committed(end_of("committed", 1), "~1~5.0.2.0.0.0.0~r");
}

static void test_failed(void)
{
	struct store *s = store_open_faulty();

	put_file(s, "a");
	leave(s, record_of("x", "failed", 1));
	CHECK(!recover(s));
	CHECK_STR(keys(s), "tutti/failed/" NAME ".json");
	/* A put that took very long brings an old record back. */
	leave(s, record_of("x", NULL, 1));
	put_file(s, "a");
	CHECK(!recover(s));
	CHECK_STR(keys(s), "tutti/failed/" NAME ".json");
	store_free(s);
}

/* What the retry brought goes; the session stays. */
static void test_retry(void)
{
	struct store *s = store_open_faulty();
	json_t *left;

	put_file(s, "a");
	leave(s, record_of("x", "committed", 1));
	CHECK(!recover(s));
	leave(s, record_of("x", NULL, 2));
	put_file(s, "b");
	left = recover(s);
	CHECK_EQ(json_get_int(json_object_get(left, "manifest"), "revision"), 1);
	json_decref(left);
	leave(s, record_of("x", "cancelled", 2));
	CHECK(!recover(s));
	CHECK(strstr(keys(s), "/a.xplane.pb") && !strstr(keys(s), "/b.xplane.pb"));
	put_file(s, "b");
	leave(s, end_of("cancelled", 2));
	CHECK(!recover(s));
	CHECK(strstr(keys(s), "/a.xplane.pb") && !strstr(keys(s), "/b.xplane.pb"));
	CHECK(strstr(keys(s), "manifest.json") && !strstr(keys(s), "ledger"));
	store_free(s);
}

/* An owner that was frozen puts its record when another one has ended the session, and is killed before it looks whether
 * its own last record is there still. */
static void test_woken_owner(void)
{
	struct store *s = store_open_faulty();
	json_t *manifest = NULL, *record = record_of("former", "failed", 1);
	struct err e = { 0 };
	unsigned int n = 0;

	put_file(s, "a");
	leave(s, record_of("x", "committed", 1));
	CHECK(!recover(s));
	/* it thinks that none of its records was stored, and carries the end out by itself */
	CHECK_OK(ledger_put_end(s, record, &n, &e), e);
	CHECK_EQ(ledger_carry_out(s, record, n, &e), ERR_EXISTS);
	json_decref(record);
	CHECK(strstr(keys(s), "/a.xplane.pb") && strstr(keys(s), "ledger"));
	CHECK(!recover(s));
	CHECK(strstr(keys(s), "/a.xplane.pb") && strstr(keys(s), "manifest.json") &&
	      !strstr(keys(s), "failed") && !strstr(keys(s), "ledger"));
	leave(s, record_of("x", "committed", 3));
	CHECK(!recover(s));
	leave(s, record_of("former", "committed", 2));
	CHECK(!recover(s) && !session_load_manifest(s, NAME, &manifest, &e));
	CHECK_EQ(json_get_int(manifest, "revision"), 3);
	json_decref(manifest);
	store_free(s);

	s = store_open_faulty();
	put_file(s, "a");
	leave(s, record_of("x", "cancelled", 1));
	CHECK(!recover(s));
	leave(s, record_of("former", "committed", 1));
	CHECK(!recover(s));
	CHECK_STR(keys(s), "tutti/failed/" NAME ".json");
	leave(s, record_of("former", "committed", 2)); /* a retry brings nothing back */
	CHECK(!recover(s));
	CHECK_STR(keys(s), "tutti/failed/" NAME ".json");
	store_free(s);
}

/* The deletion goes on where it broke off; the session is gone for readers from the first step on. */
static void test_deletion_breaks_off(void)
{
	struct store *s = store_open_faulty();
	json_t *manifest = NULL;
	bool begun;
	struct err e = { 0 };

	put_file(s, "a");
	leave(s, record_of("x", "committed", 1));
	CHECK(!recover(s));
	store_set_rules(s, "remove profiles/* fail");
	CHECK_EQ(session_delete(s, NAME, &begun, &e), ERR_IO);
	CHECK(begun);
	CHECK_EQ(session_load_manifest(s, NAME, &manifest, &e), ERR_NOT_FOUND);
	store_set_rules(s, "");
	CHECK(!recover(s));
	CHECK_STR(keys(s), "");
	store_free(s);
}

/* A store that takes nothing at all keeps the session whole. */
static void test_deletion_when_full(void)
{
	struct store *s = store_open_faulty();
	json_t *manifest = NULL;
	bool begun;
	struct err e = { 0 };

	put_file(s, "a");
	leave(s, record_of("x", "committed", 1));
	CHECK(!recover(s));
	store_set_rules(s, "put * full");
	CHECK_EQ(session_delete(s, NAME, &begun, &e), ERR_FULL);
	CHECK(strstr(keys(s), "a.xplane.pb"));
	CHECK_OK(session_load_manifest(s, NAME, &manifest, &e), e);
	json_decref(manifest);
	store_set_rules(s, "put * full times=1");
	CHECK_OK(session_delete(s, NAME, &begun, &e), e);
	CHECK_STR(keys(s), "");
	store_free(s);
}

/* On a full store what the end drops makes room for its record. */
static void test_full(void)
{
	struct store *s = store_open_faulty();
	json_t *record = record_of("x", "failed", 1);
	unsigned int n = 0;
	struct err e = { 0 };

	put_file(s, "a");
	store_set_rules(s, "put * full times=1");
	CHECK_OK(ledger_put_end(s, record, &n, &e), e);
	CHECK_STR(keys(s), "tutti/ledger/" NAME ".000001.json");
	json_decref(record);
	/* A commit drops nothing. */
	put_file(s, "a");
	record = record_of("x", "committed", 1);
	store_set_rules(s, "put * full times=1");
	CHECK_EQ(ledger_put_end(s, record, &n, &e), ERR_FULL);
	CHECK(strstr(keys(s), "a.xplane.pb"));
	json_decref(record);
	store_free(s);
}

/* Nothing is removed of a session whose record cannot be read. */
static void test_unreadable(void)
{
	static const char *const texts[] = { "[]", "x", "{\"version\":2}", "{\"version\":1}" };
	struct store *s = store_open_faulty();
	json_t *left;
	struct err e;
	char before[2000];

	put_file(s, "a");
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		store_put_text(s, "tutti/ledger/" NAME ".000001.json", texts[i]);
		snprintf(before, sizeof(before), "%s", keys(s));
		CHECK(session_recover(s, NAME, &left, &e));
		CHECK(strstr(e.msg, NAME));
		CHECK_STR(keys(s), before);
	}
	store_free(s);
}

/* ---- a session that comes as a whole ---- */

static int put_two_files(void *store, struct err *e)
{
	static const char *const files[] = { "a", "b" };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(files) && !rc; i++) {
		char key[SESSION_KEY_BYTES];

		session_file_key(NAME, "r", files[i], key);
		rc = store_put_bytes(store, key, "x", 1, STORE_ABSENT, any_time(), e);
	}
	return rc;
}

static int put_whole(struct store *s, struct err *e)
{
	json_t *manifest = json_pack("{s:s, s:s, s:I, s:i, s:[{s:s, s:[s]}, {s:s, s:[s]}]}",
				     "session", NAME, "run", "r", "t0_ns", (json_int_t)5,
				     "revision", 1, "hosts", "host", "a", "files", "a.xplane.pb",
				     "host", "b", "files", "b.xplane.pb");
	const struct session_whole whole = {
		.manifest = manifest, .nonce = "x", .put_files = put_two_files, .arg = s
	};
	bool begun = false;
	int rc = session_put_whole(s, &whole, &begun, e);

	CHECK(begun);
	json_decref(manifest);
	return rc;
}

/* Each call of the store fails once, or its answer is lost: after the next start all of the session is there, or nothing
 * of it; all of it, if the caller was told so. */
static void test_whole(void)
{
	bool saw_nothing = false, saw_all = false;

	for (int i = 0; i < 2 * 40; i++) {
		struct store *s = store_open_faulty();
		struct err e = { 0 };
		char rule[60];
		bool all;
		int rc;

		snprintf(rule, sizeof(rule), "%s skip=%d times=1",
			 i % 2 ? "write * lose" : "* * fail", i / 2);
		store_set_rules(s, rule);
		rc = put_whole(s, &e);
		store_set_rules(s, "");
		CHECK(!recover(s));
		all = strstr(keys(s), "manifest.json");
		CHECK(all || !*keys(s));
		CHECK(all || rc);
		CHECK(!strstr(keys(s), "ledger"));
		if (all)
			CHECK(strstr(keys(s), "/a.xplane.pb") && strstr(keys(s), "/b.xplane.pb"));
		saw_all |= all;
		saw_nothing |= !all;
		store_free(s);
	}
	CHECK(saw_all && saw_nothing);
}

int main(void)
{
	test_highest_holds();
	test_damaged_and_unknown();
	test_answer_lost();
	test_two_owners();
	test_out_of_range();
	test_listing_is_behind();
	test_carried_on();
	test_committed();
	test_failed();
	test_retry();
	test_woken_owner();
	test_deletion_breaks_off();
	test_deletion_when_full();
	test_full();
	test_unreadable();
	test_whole();
	return 0;
}
