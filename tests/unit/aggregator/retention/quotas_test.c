/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of sessions and bytes, while captures begin, fail, are taken up again and removed. */
#include "aggregator/retention/quotas.h"

#include "aggregator/retention/removal.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "tests/lib/store.h"
#include "tests/lib/virtual_time.h"
#include "tests/unit/aggregator/fleet.h"

#define PERIOD_NS     (300 * NS_PER_S)
#define HALF_GRACE_NS (2 * NS_PER_S)
#define NAME(n)	      "2026_11_21_12_00_0" #n "_aaaaaa"

/* ---- settings ---- */

static int new_of_run(const char *text, struct err *e)
{
	char *items[] = { (char *)text };
	const struct conf_list runs = { items, 1 };
	const struct quotas_conf conf = { .runs = &runs };
	struct quotas *q = NULL;
	int rc = quotas_new(&q, &conf, e);

	quotas_free(q);
	return rc;
}

static void test_settings(void)
{
	static const char *const good[] = { "nightly=200G,50", "nightly=0,5", "=1M,0", "a/b=1,1" },
				 *const bad[] = { "nightly",	   "nightly=1G",    "nightly=1G,",
						  "nightly=,5",	   "nightly=x,5",   "nightly=1G,x",
						  "nightly=1G,-1", "nightly=1G,5x", "../a=1,1" };
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_OK(new_of_run(good[i], &e), e);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(new_of_run(bad[i], &e), ERR_INVALID);
		CHECK(strstr(e.msg, bad[i]) && strstr(e.msg, "quota-run"));
	}
}

/* ---- a fleet with quotas ---- */

static struct aggregator_conf quota; /* its members for quotas */

static void set_quotas(struct aggregator_conf *c)
{
	c->quota_bytes = quota.quota_bytes;
	c->quota_sessions = quota.quota_sessions;
	c->retain_period_ns = PERIOD_NS;
	if (!quota.quota_run.n)
		return;
	c->quota_run.items = xcalloc(1, sizeof(char *));
	c->quota_run.items[0] = xstrdup(quota.quota_run.items[0]);
	c->quota_run.n = 1;
}

static int check(struct fleet *f, const char *run, uint64_t bytes)
{
	return quotas_check(f->agg.quotas, run, bytes, NULL);
}

static void start_fleet(struct fleet *f, int64_t grace_ns, const struct aggregator_conf *c)
{
	quota = *c;
	fleet_set_conf = set_quotas;
	fleet_start(f, 0, grace_ns);
	fleet_set_conf = NULL;
}

static void start(struct fleet *f, int64_t grace_ns, const struct aggregator_conf *c)
{
	start_fleet(f, grace_ns, c);
	/* what the store holds is not known yet: nothing begins, and no caller is told that it is full */
	CHECK_EQ(check(f, "", 0), ERR_BUSY);
	WAIT(f, check(f, "", 0) != ERR_BUSY);
}

/* What is said to be used of the quota of all, or of a run. */
static int64_t used_of(const struct quotas *q, const char *run, const char *member)
{
	json_t *all = quotas_json(q), *one;
	int64_t value = -1;
	size_t i;

	json_array_foreach(all, i, one)
	{
		const json_t *name = json_object_get(one, "run");

		if (run ? name && !strcmp(json_string_value(name), run) : !name)
			value = json_get_int(one, member);
	}
	json_decref(all);
	return value;
}

static int64_t used(struct fleet *f, const char *run, const char *member)
{
	return used_of(f->agg.quotas, run, member);
}

static struct capture *begin_of_run(struct fleet *f, const char *run, int *rc)
{
	const struct capture_request req = { .duration_ns = 10 * NS_PER_MS,
					     .origin = "test",
					     .run = run };
	struct capture *c = NULL;

	*rc = capture_begin(f->agg.captures, &req, &c, NULL);
	return c;
}

static int capture_of_run(struct fleet *f, const char *run)
{
	int rc;
	struct capture *c = begin_of_run(f, run, &rc);

	if (!rc)
		fleet_wait_over(f, c->session);
	return rc;
}

/* ---- sessions ---- */

/* A capture under way counts, one that failed does not; what is stored does, until it is removed. */
static void test_sessions(void)
{
	const struct aggregator_conf conf = { .quota_sessions = 2 };
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct fleet f;
	struct err e = { 0 };
	int rc;

	start(&f, HALF_GRACE_NS, &conf);
	fake_connect(&a, &f, "a");
	c = begin_of_run(&f, "", &rc);
	CHECK_EQ(rc, 0);
	CHECK_EQ(check(&f, "", 0), 0);
	CHECK_EQ(used(&f, NULL, "sessions"), 0);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	a.auto_deliver = true;
	CHECK_EQ(capture_of_run(&f, ""), 0);
	CHECK_EQ(used(&f, NULL, "sessions"), 1);
	a.auto_deliver = false;
	c = begin_of_run(&f, "", &rc); /* the second, under way */
	CHECK_EQ(rc, 0);
	CHECK_EQ(quotas_check(f.agg.quotas, "", 0, &e), ERR_FULL);
	CHECK(strstr(e.msg, "the store has 2 of 2 sessions"));
	CHECK_EQ(capture_of_run(&f, "y"), ERR_FULL);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	a.auto_deliver = true;
	CHECK_EQ(capture_of_run(&f, "x"), 0);
	CHECK_EQ(capture_of_run(&f, ""), ERR_FULL);
	fleet_stop(&f);
}

static void on_removal(void *arg, enum removal_end end, const struct err *e)
{
	(void)e;
	CHECK_EQ(end, REMOVAL_DONE);
	*(bool *)arg = true;
}

static void test_removed(void)
{
	const struct aggregator_conf conf = { .quota_sessions = 1 };
	struct fake a = { .auto_deliver = true };
	bool is_removed = false;
	char session[64];
	struct fleet f;

	start(&f, 0, &conf);
	fake_connect(&a, &f, "a");
	snprintf(session, sizeof(session), "%s", fleet_begin(&f)->session);
	fleet_wait_over(&f, session);
	CHECK_EQ(check(&f, "", 0), ERR_FULL);
	removals_begin(f.agg.removals, session, "test", on_removal, &is_removed);
	WAIT(&f, is_removed);
	CHECK_EQ(check(&f, "", 0), 0);
	CHECK_EQ(used(&f, NULL, "sessions"), 0);
	CHECK_EQ(used(&f, NULL, "bytes"), 0);
	fleet_stop(&f);
}

/* ---- bytes ---- */

static void test_bytes(void)
{
	const struct aggregator_conf conf = { .quota_bytes = 1000 };
	struct fleet f;
	struct err e = { 0 };

	start(&f, 0, &conf);
	CHECK_EQ(check(&f, "", 1000), 0);
	CHECK_EQ(check(&f, "", 1001), ERR_FULL);
	quotas_add(f.agg.quotas, NAME(1), "", 600);
	CHECK_EQ(check(&f, "", 400), 0);
	CHECK_EQ(check(&f, "", 401), ERR_FULL);
	CHECK_EQ(check(&f, "", UINT64_MAX), ERR_FULL);
	quotas_add(f.agg.quotas, NAME(1), "", 700); /* the same one: not both */
	CHECK_EQ(used(&f, NULL, "bytes"), 700);
	CHECK_EQ(used(&f, NULL, "sessions"), 1);
	quotas_add(f.agg.quotas, NAME(2), "", 300);
	CHECK_EQ(quotas_check(f.agg.quotas, "", 0, &e), ERR_FULL); /* not known how many it needs */
	CHECK(strstr(e.msg, "1000 of 1000 bytes"));
	quotas_remove(f.agg.quotas, NAME(3));
	quotas_remove(f.agg.quotas, NAME(1));
	CHECK_EQ(used(&f, NULL, "bytes"), 300);
	CHECK_EQ(check(&f, "", 0), 0);
	fleet_stop(&f);
}

/* Of one run, and of no other; of all sessions besides. */
static void test_runs(void)
{
	char *runs[] = { (char *)"nightly=500,2" };
	const struct aggregator_conf conf = { .quota_sessions = 3, .quota_run = { runs, 1 } };
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct fleet f;
	struct err e = { 0 };
	int rc;

	start(&f, 0, &conf);
	fake_connect(&a, &f, "a");
	quotas_add(f.agg.quotas, NAME(1), "nightly", 100);
	quotas_add(f.agg.quotas, NAME(2), "other", 9000);
	CHECK_EQ(check(&f, "nightly", 400), 0);
	CHECK_EQ(check(&f, "nightly", 401), ERR_FULL);
	CHECK_EQ(check(&f, "nightly/2", 401), 0);
	CHECK_EQ(used(&f, "nightly", "bytes"), 100);
	CHECK_EQ(used(&f, "nightly", "sessions"), 1);
	c = begin_of_run(&f, "other", &rc); /* under way */
	CHECK_EQ(check(&f, "nightly", 0), ERR_FULL); /* of all */
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	quotas_remove(f.agg.quotas, NAME(2));
	c = begin_of_run(&f, "other", &rc);
	CHECK_EQ(check(&f, "nightly", 0), 0);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	c = begin_of_run(&f, "nightly", &rc);
	CHECK_EQ(quotas_check(f.agg.quotas, "nightly", 0, &e), ERR_FULL);
	CHECK(strstr(e.msg, "the run 'nightly' has 2 of 2 sessions"));
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	quotas_add(f.agg.quotas, NAME(2), "nightly", 10);
	CHECK_EQ(quotas_check(f.agg.quotas, "nightly", 0, &e), ERR_FULL);
	CHECK(strstr(e.msg, "the run 'nightly' has 2 of 2 sessions"));
	CHECK_EQ(check(&f, "other", 0), 0);
	quotas_add(f.agg.quotas, NAME(3), "other", 0);
	CHECK_EQ(check(&f, "other", 0), ERR_FULL);
	fleet_stop(&f);
}

/* ---- a retry ---- */

static int retry(struct fleet *f, const char *session, struct capture **c)
{
	struct retry_source *s;
	int rc = retry_source_read(f->agg.store.store, session, &s, NULL);

	if (!rc)
		rc = capture_retry(f->agg.captures, s, 0, c, NULL);
	retry_source_free(s);
	return rc;
}

/* host-a delivers, host-b does not: one stored session with one file. */
static void half(struct fleet *f, struct fake *a, struct fake *b, char session[64])
{
	const struct aggregator_conf conf = { .quota_sessions = 2, .quota_bytes = 1 << 20 };

	start(f, HALF_GRACE_NS, &conf);
	a->auto_deliver = b->auto_arm = true;
	fake_connect(a, f, "host-a");
	fake_connect(b, f, "host-b");
	snprintf(session, 64, "%s", fleet_begin(f)->session);
	fleet_wait_over(f, session);
	CHECK_EQ(used(f, NULL, "sessions"), 1);
	CHECK(used(f, NULL, "bytes") > 0);
}

/* While it is under way its session counts once, and then with the bytes of both hosts. */
static void test_retry(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct capture *c;
	char session[64];
	struct fleet f;
	int64_t bytes;
	int rc;

	half(&f, &a, &b, session);
	bytes = used(&f, NULL, "bytes");
	CHECK_EQ(retry(&f, session, &c), 0);
	CHECK_EQ(used(&f, NULL, "sessions"), 1);
	CHECK_EQ(check(&f, "", 0), 0);
	WAIT(&f, fleet_host_is(c, 1, "armed"));
	CHECK_EQ(check(&f, "", 0), 0);
	CHECK_EQ(fake_upload(&b, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&b, true, "", "");
	fleet_wait_over(&f, session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK_EQ(used(&f, NULL, "sessions"), 1);
	CHECK_EQ(used(&f, NULL, "bytes"), bytes + 10);
	CHECK_EQ(check(&f, "", 0), 0);
	c = begin_of_run(&f, "", &rc); /* the second */
	CHECK_EQ(rc, 0);
	CHECK_EQ(check(&f, "", 0), ERR_FULL);
	fleet_wait_over(&f, c->session);
	fleet_stop(&f);
}

/* One that is called off leaves the session, and its use, as they were. */
static void test_retry_cancelled(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct capture *c;
	char session[64];
	struct fleet f;
	int64_t bytes;

	half(&f, &a, &b, session);
	bytes = used(&f, NULL, "bytes");
	CHECK_EQ(retry(&f, session, &c), 0);
	WAIT(&f, fleet_host_is(c, 1, "armed"));
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, session);
	CHECK_EQ(used(&f, NULL, "sessions"), 1);
	CHECK_EQ(used(&f, NULL, "bytes"), bytes);
	CHECK_EQ(check(&f, "", 0), 0);
	fleet_stop(&f);
}

/* ---- what other programs do ---- */

static void put_session(struct fleet *f, const char *session, int bytes)
{
	char *key = xasprintf("tutti/sessions/%s/manifest.json", session);
	char *text = xasprintf("{\"session\": \"%s\", \"run\": \"r\", \"bytes\": %d, \"t0_ns\": 1}",
			       session, bytes);
	struct session_line line;
	struct err e = { 0 };

	store_put_text(f->agg.store.store, key, text);
	CHECK_OK(session_load_line(f->agg.store.store, session, &line, &e),
		 e); /* puts it into the index */
	free(text);
	free(key);
}

/* The next look finds it, and forgets what is not there. */
static void test_look(void)
{
	const struct aggregator_conf conf = { .quota_sessions = 2 };
	struct fake a = { .auto_deliver = true };
	struct fleet f;

	start(&f, 0, &conf);
	fake_connect(&a, &f, "a");
	put_session(&f, NAME(1), 7);
	CHECK_EQ(used(&f, NULL, "sessions"), 0);
	quotas_look(f.agg.quotas);
	WAIT(&f, used(&f, NULL, "sessions") == 1);
	CHECK_EQ(used(&f, NULL, "bytes"), 7);
	put_session(&f, NAME(2), 8);
	run_for(f.loop, 2 * PERIOD_NS);
	CHECK_EQ(used(&f, NULL, "sessions"), 2);
	CHECK_EQ(used(&f, NULL, "bytes"), 15);
	CHECK_EQ(check(&f, "", 0), ERR_FULL);
	quotas_add(f.agg.quotas, NAME(9), "", 1); /* is not in the store: a look forgets it */
	quotas_look(f.agg.quotas);
	WAIT(&f, used(&f, NULL, "sessions") == 2);
	fleet_stop(&f);
}

/* What comes while a look is under way is not taken back by what the look has found. */
static void test_look_under_way(void)
{
	static const struct conf_list no_runs;
	const struct store_fault_env late = { .wait = virtual_worker_wait };
	const struct quotas_conf conf = { .sessions = 10, .runs = &no_runs };
	const struct aggregator_conf none = { 0 };
	struct session_store store = { .ready = true };
	struct quotas *q;
	struct fleet f;
	struct err e = { 0 };

	start_fleet(&f, 0, &none);
	CHECK_OK(store_open(&store.store, "mem://looked-at", &e), e);
	store.store = store_fault_wrap(store.store, &late);
	store_set_rules(store.store, "list * delay=1"); /* so much later is the answer */
	CHECK_OK(quotas_new(&q, &conf, &e), e);
	quotas_start(q, &(struct quotas_env){ .jobs = &f.agg.jobs,
					      .store = &store,
					      .captures = f.agg.captures,
					      .period_ns = PERIOD_NS });
	WAIT(&f, !quotas_check(q, "", 0, NULL));
	quotas_look(q);
	run_for(f.loop, 700 * NS_PER_MS); /* it has asked, and waits */
	quotas_add(q, NAME(1), "", 5);
	run_for(f.loop, NS_PER_S); /* its answer came */
	CHECK_EQ(used_of(q, NULL, "sessions"), 1);
	run_for(f.loop, 10 * NS_PER_S); /* it looked again: there is no such session */
	CHECK_EQ(used_of(q, NULL, "sessions"), 0);
	quotas_stop(q);
	run_for(f.loop, 10 * NS_PER_S);
	fleet_stop(&f);
	quotas_free(q);
	store_free(store.store);
}

static void test_none(void)
{
	const struct aggregator_conf conf = { 0 };
	struct fleet f;
	json_t *all;

	start_fleet(&f, 0, &conf);
	CHECK_EQ(check(&f, "", UINT64_MAX), 0);
	quotas_add(f.agg.quotas, NAME(1), "", UINT64_MAX);
	CHECK_EQ(check(&f, "", UINT64_MAX), 0);
	all = quotas_json(f.agg.quotas);
	CHECK_EQ(json_array_size(all), 0);
	json_decref(all);
	fleet_stop(&f);
}

int main(void)
{
	test_settings();
	test_sessions();
	test_removed();
	test_bytes();
	test_runs();
	test_retry();
	test_retry_cancelled();
	test_look();
	test_look_under_way();
	test_none();
	return 0;
}
