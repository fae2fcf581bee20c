/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/retention/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "aggregator/sessions/pins.h"
#include "base/now.h"
#include "proto/names.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"

#define DAY_NS	 (86400 * NS_PER_S)
#define FIRST_NS (1795000000 * NS_PER_S)

/* A session that was asked for in the first second of a day and has `bytes`; its name ends with `number`. */
static void make_waiting(struct store *s, char name[SESSION_NAME_BYTES], int day, int number,
			 int64_t waited_ns, const char *run, int bytes)
{
	char key[SESSION_KEY_BYTES], text[256], time[20];

	time_session_name(FIRST_NS + day * DAY_NS, time);
	snprintf(name, SESSION_NAME_BYTES, "%s_%06d", time, number);
	CHECK(name_is_session(name));
	snprintf(key, sizeof(key), "tutti/sessions/%s/manifest.json", name);
	snprintf(text, sizeof(text),
		 "{\"session\": \"%s\", \"run\": \"%s\", \"bytes\": %d, \"t0_ns\": %" PRId64 "}",
		 name, run, bytes, FIRST_NS + day * DAY_NS + waited_ns);
	store_put_text(s, key, text);
}

static void make_manifest(struct store *s, char name[SESSION_NAME_BYTES], int day, int number,
			  const char *run, int bytes)
{
	make_waiting(s, name, day, number, 0, run, bytes);
}

static void make_entry(struct store *s, const char *name)
{
	struct session_line line;
	struct err e = { 0 };

	CHECK_OK(session_load_line(s, name, &line, &e), e); /* puts it into the index */
}

/* Session `i` began on day `i`. */
static void make(struct store *s, char name[SESSION_NAME_BYTES], int i, const char *run, int bytes)
{
	make_manifest(s, name, i, i, run, bytes);
	make_entry(s, name);
}

/* What a look at noon of day `day` calls old: "0 2", in the order of removal. */
static const char *look(struct store *s, const struct retention_rules *rules, int day,
			struct retention_view *view)
{
	static char text[128];
	struct err e = { 0 };

	CHECK_OK(retention_look(s, rules, FIRST_NS + day * DAY_NS + DAY_NS / 2, view, &e), e);
	text[0] = '\0';
	for (size_t i = 0; i < view->old.n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i ? " " : "",
			 view->old.items[i][strlen(view->old.items[i]) - 1] - '0');
	return text;
}

static void test_age(void)
{
	struct retention_rules rules = { .keep_ns = 3 * DAY_NS };
	struct store *s = store_open_faulty();
	struct retention_view v = { 0 };
	char names[6][SESSION_NAME_BYTES];
	struct err e = { 0 };

	CHECK_STR(look(s, &rules, 100, &v), "");
	for (int i = 0; i < 6; i++)
		make(s, names[i], i, i % 2 ? "nightly" : "", 1);
	CHECK_STR(look(s, &rules, 2, &v), "");
	CHECK_STR(look(s, &rules, 5, &v), "0 1 2");
	CHECK_EQ(v.sessions, 6);
	CHECK_EQ(v.pinned, 0);
	CHECK_OK(session_pin(s, names[1], &e), e);
	CHECK_OK(session_pin(s, names[5], &e), e);
	CHECK_OK(session_pin(s, names[5], &e), e);
	CHECK_STR(look(s, &rules, 5, &v), "0 2");
	CHECK_EQ(v.pinned, 2);
	CHECK_OK(session_unpin(s, names[1], &e), e);
	CHECK_STR(look(s, &rules, 5, &v), "0 1 2");
	CHECK_EQ(session_pin(s, "2026_01_01_00_00_00_aaaaaa", &e), ERR_NOT_FOUND);
	retention_view_release(&v);
	store_free(s);
}

static void test_runs(void)
{
	char *texts[] = { (char *)"nightly=2d", (char *)"a/b=0" };
	const struct conf_list list = { texts, 2 };
	struct retention_rules rules = { .keep_ns = 4 * DAY_NS };
	struct store *s = store_open_faulty();
	struct retention_view v = { 0 };
	char name[SESSION_NAME_BYTES];
	struct err e = { 0 };

	CHECK_OK(retention_add_runs(&rules, &list, &e), e);
	make(s, name, 0, "", 1);
	make(s, name, 1, "nightly", 1);
	make(s, name, 2, "a/b", 1);
	make(s, name, 3, "nightly", 1);
	make(s, name, 4, "other", 1);
	CHECK_STR(look(s, &rules, 3, &v), "1");
	CHECK_STR(look(s, &rules, 9, &v), "0 1 3 4");
	rules.keep_ns = 0; /* only runs with a rule of their own */
	CHECK_STR(look(s, &rules, 9, &v), "1 3");
	retention_view_release(&v);
	retention_rules_release(&rules);
	store_free(s);
}

/* Captures that waited in the queue for two days: their T0 counts, not the time in their names. */
static void test_waited(void)
{
	char *texts[] = { (char *)"nightly=3d" };
	const struct conf_list list = { texts, 1 };
	struct retention_rules rules = { .keep_ns = 3 * DAY_NS };
	struct store *s = store_open_faulty();
	struct retention_view v = { 0 };
	char name[SESSION_NAME_BYTES];
	struct err e = { 0 };

	CHECK_OK(retention_add_runs(&rules, &list, &e), e);
	for (int i = 0; i < 2; i++) {
		make_waiting(s, name, 0, i, 2 * DAY_NS, i ? "nightly" : "", 1);
		make_entry(s, name);
	}
	make(s, name, 1, "", 1);
	CHECK_STR(look(s, &rules, 4, &v), "1"); /* the third one, of day 1 */
	CHECK_STR(look(s, &rules, 5, &v), "1 0 1");
	retention_view_release(&v);
	retention_rules_release(&rules);
	store_free(s);
}

static void test_bytes(void)
{
	struct retention_rules rules = { .keep_bytes = 100 };
	struct store *s = store_open_faulty();
	struct retention_view v = { 0 };
	char names[5][SESSION_NAME_BYTES];
	struct err e = { 0 };

	make(s, names[0], 0, "", 5);
	make(s, names[1], 1, "", 60);
	make(s, names[2], 2, "", 50);
	CHECK_STR(look(s, &rules, 3, &v),
		  "0 1"); /* a small old one goes before a large newer one */
	CHECK_EQ(v.bytes, 50);
	CHECK_OK(session_pin(s, names[1], &e), e);
	CHECK_STR(look(s, &rules, 3, &v), "0"); /* what is pinned counts */
	CHECK_EQ(v.bytes, 110);
	make(s, names[3], 3, "", 1000);
	CHECK_STR(look(s, &rules, 3, &v), "0 2"); /* the newest stays, whatever its size */
	rules.keep_bytes = 2000;
	CHECK_STR(look(s, &rules, 3, &v), "");
	CHECK_EQ(v.bytes, 1115);
	retention_view_release(&v);
	store_free(s);
}

static void put_ledger(struct store *s, const char *session)
{
	char key[SESSION_KEY_BYTES];

	snprintf(key, sizeof(key), "tutti/ledger/%s.000001.json", session);
	store_put_text(s, key, "{}");
}

/* A crash on a full store: the newest session has no entry in the index, and there is no room for one. */
static void test_unlisted(void)
{
	struct retention_rules rules = { .keep_bytes = 100 };
	struct store *s = store_open_faulty();
	struct retention_view v = { 0 };
	char names[4][SESSION_NAME_BYTES];

	make(s, names[0], 0, "", 40);
	make(s, names[1], 1, "", 70);
	store_set_rules(s, "put tutti/index/* full");
	make_manifest(s, names[2], 2, 2, "", 1000);
	CHECK_STR(look(s, &rules, 3, &v), "0"); /* nothing names it */
	put_ledger(s, names[2]);
	CHECK_STR(look(s, &rules, 3, &v), "0 1");
	CHECK_EQ(v.sessions, 3);
	CHECK_EQ(v.bytes, 1000);
	put_ledger(s, "2030_01_01_00_00_00_000003"); /* a capture under way */
	put_ledger(s, names[1]); /* and a retry */
	CHECK_STR(look(s, &rules, 3, &v), "0 1");
	CHECK_EQ(v.sessions, 3);
	store_set_rules(s, "");
	CHECK_STR(look(s, &rules, 3, &v), "0 1"); /* makes the entry */
	CHECK_STR(look(s, &rules, 3, &v), "0 1");
	CHECK_EQ(v.sessions, 3);
	CHECK_EQ(v.bytes, 1000);
	retention_view_release(&v);
	store_free(s);
}

/* Sessions of one second: one that has a ledger counts once, with an entry and without, and is the newest. */
static void test_same_second(void)
{
	static const char *const but_one[] = { "2 1", "2 0", "1 0" }, *const last[] = { "2", "2",
											"1" };
	struct retention_rules rules = { 0 };
	struct retention_view v = { 0 };
	char names[3][SESSION_NAME_BYTES];

	for (int i = 0; i < 6; i++) {
		struct store *s = store_open_faulty();
		int left = i % 3;
		bool has_entry = i < 3;

		for (int k = 0; k < 3; k++) {
			make_manifest(s, names[k], 0, k, "", 4);
			if (has_entry || k != left)
				make_entry(s, names[k]);
		}
		put_ledger(s, names[left]);
		store_set_rules(s, has_entry ? "" : "put tutti/index/* full");
		rules.keep_bytes = 1;
		CHECK_STR(look(s, &rules, 0, &v), but_one[left]);
		CHECK_EQ(v.sessions, 3);
		CHECK_EQ(v.bytes, 4);
		rules.keep_bytes = 8;
		CHECK_STR(look(s, &rules, 0, &v), last[left]);
		CHECK_EQ(v.bytes, 8);
		store_free(s);
	}
	retention_view_release(&v);
}

/* A look reads no object; one that fails leaves the earlier one. */
static void test_reads(void)
{
	struct retention_rules rules = { .keep_bytes = 100, .keep_ns = 2 * DAY_NS };
	struct store *s = store_open_faulty();
	struct retention_view v = { 0 };
	char name[SESSION_NAME_BYTES];
	struct err e = { 0 };

	for (int i = 0; i < 4; i++)
		make(s, name, i, "", 10);
	CHECK_STR(look(s, &rules, 3, &v), "0 1");
	store_set_rules(s, "get * fail");
	CHECK_STR(look(s, &rules, 3, &v), "0 1");
	store_set_rules(s, "list tutti/* fail");
	CHECK(retention_look(s, &rules, FIRST_NS, &v, &e) < 0);
	CHECK_EQ(v.old.n, 2);
	store_set_rules(s, "");
	make(s, name, 4, "", 95); /* with it there are more than 100 */
	CHECK_STR(look(s, &rules, 4, &v), "0 1 2 3");
	retention_view_release(&v);
	store_free(s);
}

static void check_refused(const char *text, const char *sentence)
{
	char *items[] = { (char *)text };
	const struct conf_list list = { items, 1 };
	struct retention_rules rules = { 0 };
	struct err e = { 0 };

	CHECK_EQ(retention_add_runs(&rules, &list, &e), ERR_INVALID);
	CHECK(strstr(e.msg, sentence));
	CHECK_EQ(rules.n_runs, 0);
}

static void test_refused(void)
{
	check_refused("nightly", "use RUN=TIME");
	check_refused("nightly=", "expected a number with a unit");
	check_refused("nightly=7", "expected a number with a unit");
	check_refused("nightly=-7d", "not negative");
	check_refused("../x=7d", "retain-run '../x=7d'");
}

static void test_names(void)
{
	char name[SESSION_NAME_BYTES];

	name_make_session(FIRST_NS, name);
	CHECK_EQ(time_of_session_name(name), FIRST_NS);
	CHECK_EQ(time_of_session_name("x"), 0);
	CHECK_EQ(time_of_session_name("9999_01_01_00_00_00_aaaaaa"), INT64_MAX);
}

int main(void)
{
	test_names();
	test_age();
	test_runs();
	test_waited();
	test_bytes();
	test_unlisted();
	test_same_second();
	test_reads();
	test_refused();
	return 0;
}
