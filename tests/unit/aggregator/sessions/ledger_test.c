/* SPDX-License-Identifier: Apache-2.0 */
/* One ledger over a store that fails: changes are coalesced, repeated, and never lost. */
#include "aggregator/sessions/ledger.h"

#include <string.h>

#include "aggregator/sessions/ends.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/session_store.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "storage/store_fault.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"
#include "tests/lib/run_until.h"
#include "tests/lib/virtual_time.h"

#define NAME "2026_11_21_12_00_00_abc123"

struct bed {
	struct loop *loop;
	struct jobs jobs;
	struct session_store sessions;
	struct ledger *ledger;
	int durable, refused, ended, lost;
	struct err why; /* of the last refusal or loss */
	int made, released;
};

/* One change: the number is the record's revision. */
struct change {
	struct bed *bed;
	int number;
	const char *end;
};

static int make(void *arg, json_t **record, struct err *e)
{
	struct change *c = arg;
	json_t *o = json_pack("{s:i, s:{}, s:[]}", "revision", c->number, "plan", "hosts");

	c->bed->made++;
	if (c->end)
		json_put(o, "end", json_pack("{s:s, s:{}}", "state", c->end, "document"));
	(void)e;
	*record = o;
	return 0;
}

static void release(void *arg)
{
	struct change *c = arg;

	c->bed->released++;
	free(c);
}

static void change(struct bed *b, int number, const char *end)
{
	struct change *c = xmalloc(sizeof(*c));

	*c = (struct change){ b, number, end };
	ledger_change(b->ledger, &(struct ledger_change){ make, release, c });
}

static void on_durable(void *arg)
{
	((struct bed *)arg)->durable++;
}

static void on_refused(void *arg, const struct err *why)
{
	struct bed *b = arg;

	b->refused++;
	b->why = *why;
}

static void on_ended(void *arg, const json_t *record, const void *made_of)
{
	const struct change *c = made_of;
	struct bed *b = arg;

	CHECK(c->bed == b && c->end);

	CHECK(json_object_get(record, "end"));
	CHECK_EQ(json_get_int(record, "version"), LEDGER_END_VERSION);
	b->ended++;
}

static void on_lost(void *arg, const struct err *why)
{
	struct bed *b = arg;

	b->lost++;
	b->why = *why;
}

static const struct ledger_events events = { on_durable, on_refused, on_ended, on_lost };

static struct ledger *open_one(struct bed *b, unsigned int n, int64_t epoch)
{
	const struct ledger_opts opts = {
		.sessions = &b->sessions,
		.session = NAME,
		.run = "",
		.n = n,
		.epoch = epoch,
		.events = &events,
		.arg = b,
	};

	return ledger_open(&opts);
}

static void bed_new(struct bed *b)
{
	static const struct store_fault_env env = { .wait = virtual_worker_wait };
	struct err e = { 0 };
	struct store *s;

	*b = (struct bed){ 0 };
	CHECK_OK(loop_new(&b->loop, 2, &e), e);
	CHECK_OK(store_open(&s, "mem://ledger", &e), e);
	b->jobs.loop = b->loop;
	b->sessions = (struct session_store){ .store = store_fault_wrap(s, &env),
					      .jobs = &b->jobs,
					      .nonce = "0000000000000001" };
	b->ledger = open_one(b, 0, 0);
}

static void bed_free(struct bed *b)
{
	jobs_drain(&b->jobs);
	ledger_close(b->ledger);
	session_store_close(&b->sessions);
	loop_free(b->loop);
}

/* The revision of the record in the store; `*n` is its number. */
static int64_t stored(struct bed *b, unsigned int *n)
{
	json_t *record = NULL;
	struct err e = { 0 };
	int64_t revision;

	CHECK_OK(ledger_load(b->sessions.store, NAME, &record, n, &e), e);
	revision = json_get_int(record, "revision");
	CHECK_EQ(json_get_int(record, "version"),
		 ledger_has_end(record) ? LEDGER_END_VERSION : LEDGER_VERSION);
	CHECK_STR(json_get_text(record, "session"), NAME);
	CHECK_STR(json_get_text(json_object_get(record, "owner"), "nonce"), b->sessions.nonce);
	json_decref(record);
	return revision;
}

static void remove_records(struct bed *b)
{
	struct session_keys keys = { 0 };
	struct err e = { 0 };

	CHECK_OK(session_list_keys(b->sessions.store, "tutti/ledger/", NULL, session_keys_add,
				   &keys, &e),
		 e);
	for (size_t i = 0; i < keys.n; i++)
		CHECK_OK(session_remove_key(b->sessions.store, keys.items[i], &e), e);
	session_keys_release(&keys);
}

/* ---- tests ---- */

static void test_coalesced(void)
{
	unsigned int n = 0;
	struct bed b;

	bed_new(&b);
	CHECK(!ledger_is_durable(b.ledger));
	for (int i = 1; i <= 10; i++)
		change(&b, i, NULL);
	RUN_UNTIL(b.loop, ledger_is_durable(b.ledger));
	CHECK_EQ(stored(&b, &n), 10);
	CHECK_EQ(n, 2); /* the first, and the last of those that waited */
	CHECK_EQ(b.durable, 1);
	CHECK_EQ(b.made, 2);
	CHECK_EQ(b.released, 10);
	bed_free(&b);
}

/* For as long as it takes; a change meanwhile replaces the one that is repeated, and is tried at once. */
static void test_repeated(void)
{
	static const char *const rules[] = { "put * fail", "put * full", "put * lose",
					     "put * lose times=1\nget * missing", "list * fail" };

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		unsigned int n = 0;
		struct bed b;
		int refused;

		bed_new(&b);
		store_set_rules(b.sessions.store, rules[i]);
		change(&b, 1, NULL);
		RUN_UNTIL(b.loop, b.refused == 5);
		run_for(b.loop, 30 * NS_PER_S);
		CHECK(!b.durable && !ledger_is_durable(b.ledger));
		CHECK_EQ(b.made, 1);
		refused = b.refused;
		change(&b, 2, NULL);
		run_for(b.loop, NS_PER_S / 4);
		CHECK_EQ(b.refused, refused + 1);
		store_set_rules(b.sessions.store, "");
		RUN_UNTIL(b.loop, b.durable == 1);
		CHECK(ledger_is_durable(b.ledger));
		CHECK_EQ(stored(&b, &n), 2);
		bed_free(&b);
	}
}

/* The end was stored and its answer lost; then the disk is full, and room is made: the record in the store is no other owner's. */
static void test_full_after_a_lost_answer(void)
{
	struct bed b;

	bed_new(&b);
	change(&b, 1, NULL);
	RUN_UNTIL(b.loop, b.durable == 1);
	store_set_rules(b.sessions.store, "put tutti/ledger/* lose");
	change(&b, 2, "failed");
	RUN_UNTIL(b.loop, b.refused);
	store_set_rules(b.sessions.store, "put tutti/ledger/* full times=1");
	RUN_UNTIL(b.loop, b.ended || b.lost);
	CHECK(!b.lost);
	bed_free(&b);
}

/* The first is durable or not by then: it makes no difference. */
static void test_end(void)
{
	static const char *const rules[] = { "", "put tutti/ledger/* fail times=3",
					     "put tutti/failed/* fail times=3",
					     "remove tutti/ledger/* fail times=3" };

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		json_t *record = NULL;
		unsigned int n;
		struct err e;
		struct bed b;

		bed_new(&b);
		change(&b, 1, NULL);
		store_set_rules(b.sessions.store, rules[i]);
		change(&b, 1, "failed");
		RUN_UNTIL(b.loop, b.ended);
		CHECK(ledger_is_durable(b.ledger));
		CHECK_EQ(ledger_load(b.sessions.store, NAME, &record, &n, &e), ERR_NOT_FOUND);
		CHECK_OK(session_load_failure(b.sessions.store, NAME, &record, &e), e);
		json_decref(record);
		bed_free(&b);
	}
}

/* The end is durable long before it can be carried out: who waits for that hears at once. */
static void test_end_is_durable_first(void)
{
	struct bed b;

	bed_new(&b);
	store_set_rules(b.sessions.store, "put tutti/failed/* fail");
	change(&b, 1, "failed");
	RUN_UNTIL(b.loop, b.durable);
	RUN_UNTIL(b.loop, b.refused == 3);
	CHECK(ledger_is_durable(b.ledger));
	CHECK_EQ(b.durable, 1);
	CHECK(!b.ended);
	store_set_rules(b.sessions.store, "");
	RUN_UNTIL(b.loop, b.ended);
	CHECK_EQ(b.durable, 1);
	bed_free(&b);
}

/* The former owner writes nothing any more. */
static void test_taken_over(void)
{
	struct bed old, new;
	unsigned int n = 0;

	bed_new(&old);
	change(&old, 1, NULL);
	RUN_UNTIL(old.loop, old.durable);
	new = (struct bed){ .loop = old.loop, .jobs.loop = old.loop, .sessions = old.sessions };
	new.sessions.jobs = &new.jobs;
	memcpy(new.sessions.nonce, "0000000000000002", 17);
	new.ledger = open_one(&new, ledger_number(old.ledger), 1);
	change(&new, 2, NULL);
	RUN_UNTIL(old.loop, new.durable);
	change(&old, 3, "failed");
	RUN_UNTIL(old.loop, old.lost);
	CHECK(strstr(old.why.msg, "another aggregator"));
	change(&old, 4, NULL);
	run_for(old.loop, 20 * NS_PER_S);
	CHECK_EQ(old.released, 3);
	CHECK_EQ(old.refused + old.ended, 0);
	CHECK_EQ(stored(&new, &n), 2);
	ledger_close(new.ledger);
	bed_free(&old);
}

/* The new owner has ended the session and removed its ledger: the former one does not begin it again, and leaves no
 * file of it. */
static void test_taken_over_and_ended(void)
{
	struct bed b;
	bool found = true;
	char file[SESSION_KEY_BYTES];
	struct err e = { 0 };

	bed_new(&b);
	change(&b, 1, NULL);
	RUN_UNTIL(b.loop, b.durable);
	session_file_key(NAME, "", "a", file);
	CHECK_OK(store_put_bytes(b.sessions.store, file, "x", 1, 0, STORE_NO_DEADLINE, &e), e);
	remove_records(&b);
	change(&b, 2, "committed");
	RUN_UNTIL(b.loop, b.lost);
	CHECK_EQ(b.ended, 0);
	CHECK_OK(ledger_find(b.sessions.store, NAME, &found, &e), e);
	CHECK(!found);
	CHECK_EQ(store_stat(b.sessions.store, file, STORE_NO_DEADLINE, NULL, &e), ERR_NOT_FOUND);
	bed_free(&b);
}

/* The end is durable and cannot be carried out for long; another aggregator is started meanwhile. */
static void test_taken_over_before_the_end(void)
{
	struct bed old, new;

	bed_new(&old);
	store_set_rules(old.sessions.store, "put tutti/failed/* fail");
	change(&old, 1, "failed");
	RUN_UNTIL(old.loop, old.refused == 2);
	new = (struct bed){ .loop = old.loop, .jobs.loop = old.loop, .sessions = old.sessions };
	new.sessions.jobs = &new.jobs;
	memcpy(new.sessions.nonce, "0000000000000002", 17);
	new.ledger = open_one(&new, ledger_number(old.ledger), 1);
	change(&new, 2, NULL);
	RUN_UNTIL(old.loop, new.durable);
	store_set_rules(old.sessions.store, "");
	RUN_UNTIL(old.loop, old.lost);
	CHECK_EQ(old.ended, 0);
	CHECK_EQ(stored(&new, &(unsigned int){ 0 }), 2);
	ledger_close(new.ledger);
	bed_free(&old);
}

static void test_carried_out_by_another(void)
{
	json_t *failure = NULL;
	struct err e;
	struct bed b;

	bed_new(&b);
	store_set_rules(b.sessions.store, "put tutti/failed/* fail");
	change(&b, 1, "failed");
	RUN_UNTIL(b.loop, b.refused == 2);
	remove_records(&b);
	store_set_rules(b.sessions.store, "");
	RUN_UNTIL(b.loop, b.ended);
	CHECK_EQ(session_load_failure(b.sessions.store, NAME, &failure, &e), ERR_NOT_FOUND);
	bed_free(&b);
}

/* The other one writes records with the numbers `from` to `to`. */
static void put_records_of_another(struct bed *b, unsigned int from, unsigned int to)
{
	json_t *record = json_pack("{s:i, s:s, s:s, s:{s:i, s:s}, s:i, s:{}, s:[]}", "version",
				   LEDGER_VERSION, "session", NAME, "run", "", "owner", "epoch", 2,
				   "nonce", "0000000000000002", "revision", 2, "plan", "hosts");
	struct err e = { 0 };

	for (unsigned int n = from - 1; n < to;)
		CHECK_OK(ledger_put(b->sessions.store, NAME, record, &n, &e), e);
	json_decref(record);
}

static bool has_record(struct bed *b, unsigned int n)
{
	char key[SESSION_KEY_BYTES];

	snprintf(key, sizeof(key), "tutti/ledger/" NAME ".%06u.json", n);
	return !store_stat(b->sessions.store, key, STORE_NO_DEADLINE, NULL, NULL);
}

/* The owner is frozen between two steps of its end. When it goes on the session is the other one's, whichever number
 * that one's records have: nothing of them is removed. */
static void test_frozen_in_the_end(void)
{
	static const struct {
		bool was_ended; /* by the other one, which then retries the session */
		unsigned int from, to;
		bool is_lost;
	} cases[] = { { false, 3, 3, true }, { true, 1, 2, true }, { true, 1, 1, false } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bed b;

		bed_new(&b);
		change(&b, 1, NULL);
		RUN_UNTIL(b.loop, b.durable);
		store_set_rules(b.sessions.store, "put tutti/failed/* delay=3");
		change(&b, 1, "failed");
		RUN_UNTIL(b.loop, has_record(&b, 2));
		run_for(b.loop, NS_PER_S / 2); /* it looked whether it still owns the session */
		if (cases[i].was_ended)
			remove_records(&b);
		put_records_of_another(&b, cases[i].from, cases[i].to);
		RUN_UNTIL(b.loop, b.lost || b.ended);
		CHECK_EQ(b.lost, cases[i].is_lost);
		CHECK(has_record(&b, cases[i].to));
		bed_free(&b);
	}
}

/* Files are still on their way to the store: those that the end removes later. */
static void test_held(void)
{
	struct bed b;

	bed_new(&b);
	ledger_hold(b.ledger, true);
	change(&b, 1, NULL);
	RUN_UNTIL(b.loop, b.durable == 1);
	change(&b, 1, "failed");
	RUN_UNTIL(b.loop, b.durable == 2);
	run_for(b.loop, 60 * NS_PER_S);
	CHECK(!b.ended && ledger_is_durable(b.ledger));
	ledger_hold(b.ledger, false);
	RUN_UNTIL(b.loop, b.ended);
	CHECK_EQ(b.durable, 2);
	bed_free(&b);
}

/* A commit does not wait for them. Its record stays, so that no crash leaves a file that comes later. */
static void test_held_commit(bool is_released_first)
{
	struct bed b;

	bed_new(&b);
	b.sessions.listed = b.sessions.writable = true;
	ledger_hold(b.ledger, true);
	change(&b, 1, NULL);
	RUN_UNTIL(b.loop, b.durable == 1);
	change(&b, 1, "committed");
	if (is_released_first)
		ledger_hold(b.ledger, false);
	RUN_UNTIL(b.loop, b.ended);
	CHECK(session_store_has_left(&b.sessions, NAME));
	if (!is_released_first) {
		run_for(b.loop, 60 * NS_PER_S);
		CHECK(has_record(&b, 2));
		session_store_release(&b.sessions, NAME);
	}
	RUN_UNTIL(b.loop, !session_store_has_left(&b.sessions, NAME));
	CHECK(!has_record(&b, 2));
	session_store_stop(&b.sessions);
	bed_free(&b);
}

/* No try after that, and what is in the store stays there for the next start. */
static void test_stop(void)
{
	struct bed b;

	bed_new(&b);
	store_set_rules(b.sessions.store, "put * fail");
	change(&b, 1, NULL);
	RUN_UNTIL(b.loop, b.refused == 1);
	ledger_stop(b.ledger);
	run_for(b.loop, 20 * NS_PER_S);
	CHECK_EQ(b.refused, 1);
	bed_free(&b);
	CHECK_EQ(b.released, 1);
}

int main(void)
{
	test_coalesced();
	test_repeated();
	test_full_after_a_lost_answer();
	test_end();
	test_end_is_durable_first();
	test_taken_over();
	test_taken_over_and_ended();
	test_taken_over_before_the_end();
	test_carried_out_by_another();
	test_frozen_in_the_end();
	test_held();
	test_held_commit(false);
	test_held_commit(true);
	test_stop();
	return 0;
}
