/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked of a capture is answered when the store has it: a crash right then does not undo it. */
#include "aggregator/captures/capture.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "storage/store.h"
#include "storage/store_fault.h"
#include "tests/lib/virtual_time.h"
#include "tests/unit/aggregator/fleet.h"

#define LONG_NS (600 * NS_PER_S)

/* The answer, and what a crash at that moment would leave. */
struct durable {
	struct fleet *fleet;
	bool told, planned;
	struct err why; /* it is not durable; code 0 = it is */
	int64_t duration_ns;
};

static void on_durable(void *arg, struct capture *c, const struct err *not_durable)
{
	struct durable *k = arg;
	json_t *left = fleet_left(k->fleet, c->session);
	const json_t *plan = json_object_get(json_object_get(json_array_get(left, 0), "record"),
					     "plan");

	CHECK(!k->told);
	k->told = true;
	if (not_durable)
		k->why = *not_durable;
	k->planned = plan != NULL;
	k->duration_ns = json_get_int(plan, "duration_ns");
	json_decref(left);
}

static struct durable answered(struct fleet *f, struct capture *c)
{
	struct durable k = { .fleet = f };

	capture_when_durable(c, on_durable, &k);
	WAIT(f, k.told);
	return k;
}

static struct capture *begin(struct fleet *f, int64_t duration_ns)
{
	const struct capture_request req = { .duration_ns = duration_ns, .origin = "test" };
	struct err e = { 0 };
	struct capture *c;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	return c;
}

static struct capture *begin_running(struct fleet *f)
{
	struct capture *c = begin(f, LONG_NS);

	WAIT(f, c->state == CAP_RUNNING && fleet_host_is(c, 0, "armed"));
	return c;
}

/* ---- tests ---- */

static void test_stop(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct durable k;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	capture_stop(c);
	k = answered(&f, c);
	CHECK(!k.why.code && k.planned);
	CHECK_EQ(k.duration_ns, c->duration_ns);
	CHECK(k.duration_ns < LONG_NS);
	CHECK(answered(&f, c).told); /* at once */
	fleet_stop(&f);
}

/* The second stop comes while the first one is on its way to the store: the one window is both. */
static void test_two_stops(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	capture_stop(c);
	capture_stop(c);
	CHECK_EQ(answered(&f, c).duration_ns, c->duration_ns);
	WAIT(&f, a.stops);
	CHECK_EQ(a.t1_ns, c->t0_ns + c->duration_ns);
	CHECK_EQ(a.stops, 1);
	fleet_stop(&f);
}

/* Its turn has come, and the plan of that is on its way to the store. */
static void test_stop_of_what_waited(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *second;
	struct durable k;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	first = begin_running(&f);
	second = begin(&f, LONG_NS - 1);
	CHECK(!fleet_wait_durable(&f, second));
	CHECK(capture_cancel(first));
	WAIT(&f, second->state == CAP_PLANNING);
	capture_stop(second);
	k = answered(&f, second);
	CHECK(k.planned);
	CHECK_EQ(k.duration_ns, second->duration_ns);
	CHECK(k.duration_ns < LONG_NS / 2);
	fleet_stop(&f);
}

static void test_cancel(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct durable k, begun = { .fleet = &f };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	CHECK(capture_cancel(c));
	k = answered(&f, c);
	CHECK(!k.why.code && !k.planned);
	WAIT(&f, c->state == CAP_FAILED);
	fleet_check_failed(&f, c->session);
	/* Before its plan is stored; who asked for it hears of the end, too. */
	c = begin(&f, LONG_NS);
	capture_when_durable(c, on_durable, &begun);
	CHECK(capture_cancel(c));
	k = answered(&f, c);
	CHECK(!k.why.code && !k.planned && begun.told && !begun.planned);
	WAIT(&f, c->state == CAP_FAILED);
	fleet_stop(&f);
}

static struct store *wrap_store(struct fleet *f, const char *rules)
{
	struct err e = { 0 };

	f->agg.store.store = store_fault_wrap(f->agg.store.store, NULL);
	CHECK_OK(store_fault_set(f->agg.store.store, rules, &e), e);
	return f->agg.store.store;
}

static void set_rules(struct store *broken, const char *rules)
{
	struct err e = { 0 };

	CHECK_OK(store_fault_set(broken, rules, &e), e);
}

/* Until the store has it the agents go on: a crash would undo it for those that were told. */
static void test_stop_refused_is_repeated(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct store *broken;
	struct capture *c;
	struct durable k;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	broken = wrap_store(&f, "put tutti/ledger/* full");
	capture_stop(c);
	k = answered(&f, c);
	CHECK_EQ(k.why.code, ERR_IO);
	CHECK(strstr(k.why.msg, "no space left"));
	CHECK_EQ(k.duration_ns, LONG_NS);
	set_rules(broken, "");
	CHECK_EQ(a.stops, 0);
	k = answered(&f, c);
	CHECK(!k.why.code && k.planned);
	CHECK_EQ(k.duration_ns, c->duration_ns);
	WAIT(&f, a.stops == 1);
	fleet_stop(&f);
}

static void test_cancel_refused(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct store *broken;
	struct capture *c;
	struct durable k;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	broken = wrap_store(&f, "put * fail");
	CHECK(capture_cancel(c));
	k = answered(&f, c);
	CHECK(strstr(k.why.msg, "failed by a rule") && k.planned);
	CHECK_EQ(c->state, CAP_COMMITTING);
	CHECK_EQ(a.cancels, 0); /* a crash would undo it */
	set_rules(broken, "");
	WAIT(&f, c->state == CAP_FAILED);
	fleet_check_failed(&f, c->session);
	fleet_stop(&f);
}

/* The session waits for the store, however often that refuses it. */
static void failure_to_commit_deletes_nothing(const char *rule)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true };
	char file[SESSION_KEY_BYTES];
	struct store *broken;
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin(&f, NS_PER_MS);
	CHECK(!answered(&f, c).why.code);
	broken = wrap_store(&f, rule);
	WAIT(&f, c->store_error.code && store_fault_writes(broken) > 5);
	CHECK_EQ(c->state, CAP_COMMITTING);
	CHECK(strstr(c->store_error.msg, "failed by a rule"));
	CHECK_EQ(a.releases + a.cancels, 0);
	session_file_key(c->session, "", "a", file);
	CHECK(fleet_has_key(&f, file));
	set_rules(broken, "");
	WAIT(&f, c->state == CAP_COMMITTED);
	CHECK(fleet_has_key(&f, file));
	CHECK(!fleet_has_ledger(&f, c->session));
	WAIT(&f, a.releases == 1);
	fleet_stop(&f);
}

/* The removal of an upload that failed took effect long after it was asked for, and took the file with it that was stored since. */
static void test_file_is_gone(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { .auto_deliver = true };
	char file[SESSION_KEY_BYTES];
	struct store *broken;
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	broken = wrap_store(&f, "list profiles/* fail");
	c = begin(&f, NS_PER_MS);
	WAIT(&f, c->store_error.code);
	session_file_key(c->session, "", "a", file);
	CHECK_OK(store_remove(broken, file, store_within(STORE_PATIENCE_NS), &e), e);
	set_rules(broken, "");
	WAIT(&f, c->state == CAP_COMMITTED);
	CHECK_STR(fleet_result(c, 0).reason, "upload");
	CHECK(fleet_host_is(c, 0, "failed") && fleet_host_is(c, 1, "complete"));
	fleet_stop(&f);
}

/* Listings come late, or the files are gone: more hosts than may lack files before the commit asks for no more. */
static void files_are_not_listed(const char *rules, bool are_gone)
{
	enum { HOSTS = 300 };
	struct fake *fakes = xcalloc(HOSTS, sizeof(*fakes));
	struct err e = { 0 };
	uint64_t calls;
	struct fleet f;
	struct store *broken;
	struct capture *c;
	json_t *manifest;

	fleet_start(&f, 0, 0);
	for (int i = 0; i < HOSTS; i++) {
		char name[16];

		if (i == HOSTS / 2)
			fleet_dial_again(&f);
		snprintf(name, sizeof(name), "h%03d", i);
		fakes[i].auto_deliver = true;
		fake_connect(&fakes[i], &f, name);
	}
	broken = wrap_store(&f, rules);
	calls = store_fault_calls(broken);
	c = begin(&f, NS_PER_MS);
	WAIT(&f, c->state == (are_gone ? CAP_FAILED : CAP_COMMITTED));
	if (!are_gone) {
		CHECK_OK(session_load_manifest(broken, c->session, &manifest, &e), e);
		CHECK_EQ(json_get_int(manifest, "complete"), HOSTS);
		json_decref(manifest);
	}
	CHECK(store_fault_calls(broken) - calls < (are_gone ? 2 : 3) * HOSTS);
	fleet_stop(&f);
	free(fakes);
}

/* What the manifest says of a file whose put of the warnings was done and not answered. */
static void warnings_are_counted(const char *rules, bool must_wait)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { 0 };
	char file[SESSION_KEY_BYTES];
	struct store_stat st = { 0 };
	struct store *broken;
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = begin(&f, NS_PER_MS);
	WAIT(&f, fleet_host_is(c, 0, "armed") && b.arms);
	CHECK_EQ(fake_upload(&a, 1, 100, FLAW_NONE), RPC_OK);
	broken = wrap_store(&f, rules);
	fake_result(&a, true, "", "");
	fake_refuse(&b, "refused", "by the test");
	if (must_wait) {
		WAIT(&f, c->store_error.code);
		CHECK_EQ(c->state, CAP_COMMITTING);
		set_rules(broken, "");
	}
	WAIT(&f, c->state == CAP_COMMITTED);
	session_file_key(c->session, "", "a", file);
	CHECK_OK(store_stat(broken, file, store_within(STORE_PATIENCE_NS), &st, &e), e);
	CHECK(st.size > 100);
	CHECK_EQ(fleet_result(c, 0).bytes_done, st.size);
	fleet_stop(&f);
}

static void test_plan_refused(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct store *broken;
	struct capture *c;
	struct durable k;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	broken = wrap_store(&f, "put * full");
	c = begin(&f, NS_PER_MS);
	k = answered(&f, c);
	CHECK_EQ(k.why.code, ERR_BUSY);
	CHECK(strstr(k.why.msg, "did not take the plan"));
	CHECK(!c->cancelled);
	CHECK_STR(fleet_result(c, 0).reason, "store");
	CHECK_EQ(a.arms, 0);
	set_rules(broken, "");
	WAIT(&f, c->state == CAP_FAILED);
	fleet_check_failed(&f, c->session);
	fleet_stop(&f);
}

/* It was promised: it goes on when the store is back. */
static void test_store_fails_as_the_queue_moves(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *second;
	struct store *broken;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	first = begin_running(&f);
	second = begin(&f, LONG_NS - 1);
	CHECK(!fleet_wait_durable(&f, second));
	broken = wrap_store(&f, "put tutti/ledger/* full");
	capture_host_failed(&first->hosts[0], "lost", "by the test");
	WAIT(&f, second->store_error.code);
	CHECK_EQ(second->state, CAP_PLANNING);
	set_rules(broken, "");
	WAIT(&f, second->state == CAP_RUNNING);
	CHECK_EQ(a.arms, 2);
	CHECK(a.t0_ns == second->t0_ns);
	fleet_stop(&f);
}

/* The next T0 is chosen from how long the store takes. */
static void test_slow_store(void)
{
	static const struct store_fault_env env = { .wait = virtual_worker_wait };
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;
	int64_t begun_ns;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	f.agg.store.store = store_fault_wrap(f.agg.store.store, &env);
	CHECK_OK(store_fault_set(f.agg.store.store, "put tutti/ledger/* delay=0.5", &e), e);
	begun_ns = now_mono_ns();
	c = begin(&f, NS_PER_MS);
	WAIT(&f, a.arms);
	CHECK_EQ(a.t0_ns, c->t0_ns);
	CHECK(a.t0_ns > session_clock_now(&f.agg.clock));
	CHECK(now_mono_ns() - begun_ns < 2 * NS_PER_S); /* the second T0 was far enough away */
	set_rules(f.agg.store.store, "");
	fleet_stop(&f);
}

/* Another aggregator on the same store has carried the session on meanwhile. */
static void test_taken_over(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	json_t *left, *record;
	struct capture *c;
	struct durable k;
	unsigned int n;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	left = fleet_left(&f, c->session);
	record = json_object_get(json_array_get(left, 0), "record");
	json_put(record, "owner", json_pack("{s:i, s:s}", "epoch", 2, "nonce", "0123456789abcdef"));
	n = (unsigned int)json_get_int(json_array_get(left, 0), "ledger");
	CHECK_OK(ledger_put(f.agg.store.store, c->session, record, &n, &e), e);
	capture_stop(c);
	k = answered(&f, c);
	CHECK_EQ(k.why.code, ERR_EXISTS);
	CHECK_EQ(c->state, CAP_LOST);
	CHECK_EQ(k.duration_ns, LONG_NS); /* the other one's */
	CHECK_EQ(a.stops + a.cancels + a.releases, 0);
	json_decref(left);
	fleet_stop(&f);
}

/* Also if no host was connected, and so no plan was needed. */
static void test_failure_is_durable(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_hang_up(&a);
	c = begin(&f, NS_PER_MS);
	CHECK(!answered(&f, c).why.code);
	WAIT(&f, c->state == CAP_FAILED);
	fleet_check_failed(&f, c->session);
	fleet_stop(&f);
}

int main(void)
{
	test_stop();
	test_two_stops();
	test_stop_of_what_waited();
	test_cancel();
	test_stop_refused_is_repeated();
	test_cancel_refused();
	failure_to_commit_deletes_nothing("put tutti/ledger/* fail");
	failure_to_commit_deletes_nothing("put tutti/index/* fail");
	failure_to_commit_deletes_nothing("put tutti/sessions/*/manifest.json fail");
	test_file_is_gone();
	files_are_not_listed("list profiles/* missing", false);
	files_are_not_listed("stat,list profiles/* missing", true);
	warnings_are_counted("put profiles/* lose", false);
	warnings_are_counted("put,stat profiles/* lose", true);
	warnings_are_counted("open profiles/* fail", true);
	test_plan_refused();
	test_store_fails_as_the_queue_moves();
	test_slow_store();
	test_taken_over();
	test_failure_is_durable();
	return 0;
}
