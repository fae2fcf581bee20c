/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness, and recovery in rounds, over a store that fails. */
#include "aggregator/sessions/session_store.h"

#include <stdio.h>
#include <string.h>

#include "aggregator/sessions/ledger_record.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "storage/store_fault.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/virtual_time.h"

#define TRUTH_NS (5 * NS_PER_S) /* docs/operations.md */

static const char first[] = "2026_11_21_12_00_00_aaaaaa", second[] = "2026_11_21_12_00_01_bbbbbb";

struct bed {
	struct loop *loop;
	struct jobs jobs;
	struct session_store store;
	const char *dir;
	char rules[160], url[400];
	json_t *at_start, *later; /* recovered */
};

static void set_rules(struct bed *b, const char *text)
{
	FILE *f = fopen(b->rules, "w");

	CHECK(f);
	CHECK(fputs(text, f) >= 0);
	CHECK(!fclose(f));
}

static void *read_left(const json_t *recoverable)
{
	return json_incref((json_t *)recoverable);
}

static void take_left(void *arg, void *left_taken)
{
	struct bed *b = arg;

	json_array_append_new(b->later, left_taken);
}

static void put_ledger(struct bed *b, const char *session)
{
	char *url = xasprintf("file://%s/store", b->dir);
	json_t *record = json_pack("{s:i, s:s, s:{}, s:[{s:s}], s:i}", "version", LEDGER_VERSION,
				   "session", session, "plan", "hosts", "host", "a", "revision", 1);
	struct err e = { 0 };
	unsigned int n = 0;
	struct store *s;

	CHECK_OK(store_open(&s, url, &e), e);
	CHECK_OK(ledger_put(s, session, record, &n, &e), e);
	store_free(s);
	json_decref(record);
	free(url);
}

static void bed_new(struct bed *b)
{
	struct err e = { 0 };

	*b = (struct bed){ .dir = temp_dir(), .at_start = json_array(), .later = json_array() };
	snprintf(b->rules, sizeof(b->rules), "%s/rules", b->dir);
	snprintf(b->url, sizeof(b->url), "fault://%s!file://%s/store", b->rules, b->dir);
	set_rules(b, "");
	CHECK_OK(loop_new(&b->loop, 2, &e), e);
	b->jobs.loop = b->loop;
}

static void bed_start(struct bed *b)
{
	const struct session_heir heir = { .read = read_left, .take = take_left, .arg = b };
	struct err e = { 0 };

	CHECK_OK(session_store_open(&b->store, &b->jobs, b->url, b->at_start, &e), e);
	session_store_start(&b->store, &heir);
}

static void bed_free(struct bed *b)
{
	session_store_stop(&b->store);
	jobs_drain(&b->jobs);
	session_store_close(&b->store);
	loop_free(b->loop);
	json_decref(b->at_start);
	json_decref(b->later);
	temp_dir_remove(b->dir);
}

static bool is_named(const json_t *recovered, size_t i, const char *session)
{
	const json_t *record = json_object_get(json_array_get(recovered, i), "record");

	return !strcmp(json_get_text(record, "session"), session);
}

/* ---- tests ---- */

static void test_readiness_within_5_s(void)
{
	static const char *const rules[] = { "put * full\n", "write * fail\n", "put * lose\n" };
	struct bed b;

	bed_new(&b);
	bed_start(&b);
	CHECK(b.store.ready);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		set_rules(&b, rules[i]);
		run_for(b.loop, TRUTH_NS);
		CHECK(!b.store.ready);
		CHECK(*b.store.not_ready.msg);
		set_rules(&b, "");
		run_for(b.loop, TRUTH_NS);
		CHECK(b.store.ready);
	}
	bed_free(&b);
}

static void test_down_at_start(void)
{
	struct bed b;

	bed_new(&b);
	put_ledger(&b, first);
	set_rules(&b, "* * fail\n");
	bed_start(&b);
	CHECK(!b.store.ready);
	run_for(b.loop, 12 * NS_PER_S);
	CHECK(!b.store.ready && !json_array_size(b.later));
	set_rules(&b, "");
	run_for(b.loop, TRUTH_NS);
	CHECK(b.store.ready && b.store.swept);
	CHECK_EQ(json_array_size(b.at_start), 0);
	CHECK_EQ(json_array_size(b.later), 1);
	CHECK(is_named(b.later, 0, first));
	bed_free(&b);
}

/* It takes writes, and cannot be listed. */
static void test_list_fails_at_start(void)
{
	struct bed b;

	bed_new(&b);
	put_ledger(&b, first);
	set_rules(&b, "list * fail\n");
	bed_start(&b);
	CHECK(!b.store.ready);
	set_rules(&b, "");
	RUN_UNTIL(b.loop, b.store.swept);
	CHECK(b.store.ready);
	CHECK(is_named(b.later, 0, first));
	bed_free(&b);
}

static void test_one_unreadable_record_stops_no_other(void)
{
	struct bed b;

	bed_new(&b);
	put_ledger(&b, first);
	put_ledger(&b, second);
	set_rules(&b, "get tutti/ledger/2026_11_21_12_00_00_aaaaaa.* fail\n");
	bed_start(&b);
	CHECK(b.store.ready && !b.store.swept);
	CHECK_EQ(json_array_size(b.at_start), 1);
	CHECK(is_named(b.at_start, 0, second));
	run_for(b.loop, 12 * NS_PER_S);
	CHECK(b.store.ready && !b.store.swept);
	/* A later round takes up nothing that began since. */
	put_ledger(&b, "2026_11_21_12_00_02_cccccc");
	set_rules(&b, "");
	RUN_UNTIL(b.loop, b.store.swept);
	CHECK_EQ(json_array_size(b.later), 1);
	CHECK(is_named(b.later, 0, first));
	bed_free(&b);
}

static void set_inner_rules(struct bed *b, const char *rules)
{
	struct err e = { 0 };

	CHECK_OK(store_fault_set(b->store.store, rules, &e), e);
}

/* Recovery of the others goes on while it waits for the store. */
static void test_one_hanging_record_delays_no_other(void)
{
	static const struct store_fault_env env = { .wait = virtual_worker_wait };
	struct bed b;

	bed_new(&b);
	put_ledger(&b, first);
	put_ledger(&b, second);
	set_rules(&b, "* * fail\n");
	bed_start(&b);
	b.store.store = store_fault_wrap(b.store.store, &env);
	set_inner_rules(&b, "get tutti/ledger/2026_11_21_12_00_00_aaaaaa.* hang");
	set_rules(&b, "");
	RUN_UNTIL(b.loop, json_array_size(b.later) == 1);
	CHECK(is_named(b.later, 0, second));
	CHECK(session_store_has_left(&b.store, first));
	CHECK(!session_store_has_left(&b.store, second));
	set_inner_rules(&b, "");
	RUN_UNTIL(b.loop, b.store.swept);
	CHECK(is_named(b.later, 1, first));
	bed_free(&b);
}

/* Without a new start it goes on until nothing is left. */
static void test_deletion_that_broke_off(void)
{
	json_t *record = json_pack("{s:i, s:s, s:s, s:{s:s}}", "version", LEDGER_VERSION, "session",
				   first, "run", "", "end", "state", "deleted");
	struct session_keys left = { 0 };
	struct err e = { 0 };
	unsigned int n = 0;
	struct bed b;

	bed_new(&b);
	bed_start(&b);
	CHECK(b.store.swept);
	CHECK_OK(ledger_put(b.store.store, first, record, &n, &e), e);
	set_rules(&b, "remove * fail\n");
	session_store_take_up(&b.store, first);
	session_store_take_up(&b.store, first);
	run_for(b.loop, 12 * NS_PER_S);
	CHECK(!b.store.swept && session_store_has_left(&b.store, first));
	set_rules(&b, "");
	RUN_UNTIL(b.loop, b.store.swept);
	CHECK_OK(session_list_left(b.store.store, &left, &e), e);
	CHECK_EQ(left.n, 0);
	json_decref(record);
	bed_free(&b);
}

int main(void)
{
	test_readiness_within_5_s();
	test_down_at_start();
	test_list_fails_at_start();
	test_one_unreadable_record_stops_no_other();
	test_one_hanging_record_delays_no_other();
	test_deletion_that_broke_off();
	return 0;
}
