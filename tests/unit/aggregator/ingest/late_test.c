/* SPDX-License-Identifier: Apache-2.0 */
/* Grants of an earlier run of the aggregator: what comes by them after the end of a session is removed. */
#include <string.h>

#include "aggregator/ingest/ingest.h"
#include "aggregator/ingest/late_list.h"
#include "aggregator/sessions/sessions.h"
#include "base/loop.h"
#include "storage/store.h"
#include "tests/lib/store.h"
#include "tests/lib/virtual_time.h"
#include "tests/unit/aggregator/fleet.h"

#define OTHER  "2026_11_22_11_00_00_def456"
#define FAILED "2026_11_22_10_00_00_abc123"

static void on_time(void *arg)
{
	*(bool *)arg = true;
}

/* In steps: nothing is waited for longer than a minute. */
static void pass(struct fleet *f, int64_t s)
{
	for (; s > 0; s -= 10) {
		struct loop_timer timer = { 0 };
		bool over = false;

		loop_timer_in(f->loop, &timer, 10 * NS_PER_S, on_time, &over);
		WAIT(f, over);
	}
}

/* What another aggregator would be that starts now. */
static struct ingest *start_ingest(struct fleet *f, bool by_grants, bool is_replica)
{
	const struct ingest_env env = {
		.loop = f->loop,
		.jobs = &f->agg.jobs,
		.store = &f->agg.store,
		.captures = f->agg.captures,
		.spool = f->spool,
		.check = ingest_check_xspace,
		.by_grants = by_grants,
		.is_replica = is_replica,
	};
	struct ingest *in;
	struct err e = { 0 };

	CHECK_OK(ingest_new(&in, &env, &e), e);
	return in;
}

static void leave_late_file(struct fleet *f, char key[SESSION_KEY_BYTES])
{
	json_t *record = json_pack("{s:s, s:s}", "session", FAILED, "run", "");
	struct err e = { 0 };

	CHECK_OK(session_record_failure(f->agg.store.store, FAILED, record, &e), e);
	session_file_key(FAILED, "", "late", key);
	store_put_text(f->agg.store.store, key, "x");
	json_decref(record);
}

static void count(void *arg, const char *session, const char *run)
{
	CHECK(!strcmp(session, FAILED) ? !*run : !strcmp(run, "night/ly"));
	++*(int *)arg;
}

static int count_list(const struct fleet *f)
{
	int n = 0;

	late_list_each(f->spool, count, &n);
	return n;
}

static void test_start(bool by_grants)
{
	char key[SESSION_KEY_BYTES];
	struct ingest *in;
	struct fleet f;

	fleet_start(&f, 0, 0);
	leave_late_file(&f, key);
	in = start_ingest(&f, by_grants, false);
	pass(&f, 710);
	CHECK(fleet_has_key(&f, key)); /* a grant of the earlier run may still be good */
	pass(&f, 20);
	CHECK_EQ(fleet_has_key(&f, key), !by_grants);
	ingest_free(in);
	fleet_stop(&f);
}

/* A leader that was frozen puts what it had in its hands when it wakes up; its successor has ended the capture by then. */
static void test_former_leader(void)
{
	char key[SESSION_KEY_BYTES];
	struct ingest *in;
	struct fleet f;

	fleet_start(&f, 0, 0);
	in = start_ingest(&f, false, true);
	leave_late_file(&f, key);
	pass(&f, 50);
	CHECK(fleet_has_key(&f, key));
	pass(&f, 20);
	CHECK(!fleet_has_key(&f, key));
	ingest_free(in);
	fleet_stop(&f);
}

/* What an earlier run did not get removed is removed by the next one, also without grants and after days. */
static void test_list(void)
{
	char key[SESSION_KEY_BYTES];
	struct ingest *in;
	struct fleet f;

	fleet_start(&f, 0, 0);
	leave_late_file(&f, key);
	late_list_add(f.spool, FAILED, "");
	late_list_add(f.spool, OTHER, "night/ly"); /* gone since */
	CHECK_EQ(count_list(&f), 2);
	in = start_ingest(&f, false, false);
	pass(&f, 50);
	CHECK(fleet_has_key(&f, key));
	pass(&f, 20);
	CHECK(!fleet_has_key(&f, key));
	CHECK_EQ(count_list(&f), 0);
	ingest_free(in);
	fleet_stop(&f);
}

int main(void)
{
	test_list();
	test_start(true);
	test_start(false);
	test_former_leader();
	return 0;
}
