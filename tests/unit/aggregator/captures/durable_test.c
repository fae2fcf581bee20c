/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked of a capture is answered when the store has it: a crash right then does not undo it. */
#include "aggregator/captures/capture_impl.h"
#include "json/json_text.h"
#include "aggregator/sessions/sessions.h"
#include "storage/store.h"
#include "storage/store_fault.h"
#include "tests/unit/aggregator/fleet.h"

#define LONG_NS (600 * NS_PER_S)

/* What a crash at the moment of the answer would leave. */
struct durable {
	struct fleet *fleet;
	bool told, failed, planned;
	int64_t duration_ns;
};

static void on_durable(void *arg, struct capture *c)
{
	struct durable *k = arg;
	json_t *plan = NULL;
	struct err e;

	CHECK(!k->told);
	k->told = true;
	k->failed = c->not_durable.code;
	k->planned = !session_load_plan(k->fleet->agg.store.store, c->session, &plan, &e) &&
		     json_object_get(plan, "resume");
	k->duration_ns = json_get_int(plan, "duration_ns");
	json_decref(plan);
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
	CHECK(!k.failed && k.planned);
	CHECK_EQ(k.duration_ns, c->duration_ns);
	CHECK(k.duration_ns < LONG_NS);
	CHECK(answered(&f, c).told); /* at once */
	fake_forget(&a);
	fleet_stop(&f);
}

/* The second is said while the first is on its way to the store. */
static void test_two_stops(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	capture_stop_at(c, c->t0_ns + LONG_NS / 2);
	capture_stop(c);
	CHECK_EQ(answered(&f, c).duration_ns, c->duration_ns);
	WAIT(&f, a.stops);
	CHECK_EQ(a.t1_ns, c->t0_ns + c->duration_ns);
	CHECK_EQ(a.stops, 1);
	fake_forget(&a);
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
	WAIT(&f, second->plan_done);
	CHECK(capture_cancel(first));
	WAIT(&f, second->state == CAP_ARMING);
	CHECK(capture_is_being_stored(second));
	capture_stop(second);
	k = answered(&f, second);
	CHECK(k.planned);
	CHECK_EQ(k.duration_ns, second->duration_ns);
	CHECK(k.duration_ns < LONG_NS / 2);
	fake_forget(&a);
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
	CHECK(!k.failed && !k.planned);
	fleet_check_failed(&f, c->session);
	/* Before its plan is stored; who asked for it hears of the end, too. */
	c = begin(&f, LONG_NS);
	capture_when_durable(c, on_durable, &begun);
	CHECK(capture_cancel(c));
	k = answered(&f, c);
	CHECK(!k.failed && !k.planned && begun.told && !begun.planned);
	CHECK_EQ(c->state, CAP_FAILED);
	fake_forget(&a);
	fleet_stop(&f);
}

static void test_store_fails(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct store *broken;
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_running(&f);
	broken = f.agg.store.store = store_fault_wrap(f.agg.store.store, NULL);
	CHECK_OK(store_fault_set(broken, "put * full\n* * fail", &e), e);
	capture_stop(c);
	CHECK(answered(&f, c).failed);
	CHECK(strstr(c->not_durable.msg, "no space left"));
	CHECK(capture_cancel(c));
	CHECK(answered(&f, c).failed);
	CHECK(strstr(c->not_durable.msg, "failed by a rule"));
	CHECK_EQ(c->state, CAP_COMMITTING);
	CHECK_OK(store_fault_set(broken, "", &e), e);
	WAIT(&f, c->state == CAP_FAILED);
	fleet_check_failed(&f, c->session);
	fake_forget(&a);
	fleet_stop(&f);
}

static struct store *wrap_store(struct fleet *f, const char *rules)
{
	struct err e = { 0 };

	f->agg.store.store = store_fault_wrap(f->agg.store.store, NULL);
	CHECK_OK(store_fault_set(f->agg.store.store, rules, &e), e);
	return f->agg.store.store;
}

static void heal_store(struct store *broken)
{
	struct err e = { 0 };

	CHECK_OK(store_fault_set(broken, "", &e), e);
}

/* The session waits for the store, however often that refuses it. */
static void test_failure_to_commit_deletes_nothing(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true };
	char file[SESSION_KEY_BYTES];
	struct store *broken;
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	broken = wrap_store(&f, "put tutti/sessions/*/manifest.json fail");
	c = begin(&f, NS_PER_MS);
	WAIT(&f, c->end_tries == 2 && c->store_error.code);
	CHECK_EQ(c->state, CAP_COMMITTING);
	CHECK(strstr(c->store_error.msg, "failed by a rule"));
	CHECK_EQ(a.releases + a.cancels, 0);
	session_file_key(c->session, "", "a", file);
	CHECK(fleet_has_key(&f, file));
	heal_store(broken);
	WAIT(&f, c->state == CAP_COMMITTED);
	CHECK(fleet_has_key(&f, file));
	WAIT(&f, a.releases == 1);
	fake_forget(&a);
	fleet_stop(&f);
}

static void test_plan_refused(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct store *broken;
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	broken = wrap_store(&f, "put * full");
	c = begin(&f, NS_PER_MS);
	CHECK(answered(&f, c).failed);
	CHECK_EQ(c->not_durable.code, ERR_BUSY);
	CHECK(strstr(c->not_durable.msg, "did not take the plan"));
	CHECK(!c->cancelled);
	CHECK_STR(fleet_result(c, 0).reason, "store");
	CHECK_EQ(a.arms, 0);
	heal_store(broken);
	WAIT(&f, c->state == CAP_FAILED);
	fleet_check_failed(&f, c->session);
	fake_forget(&a);
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
	WAIT(&f, second->plan_done);
	broken = wrap_store(&f, "put tutti/sessions/*/plan.json full");
	capture_host_failed(&first->hosts[0], "lost", "by the test");
	WAIT(&f, second->replan_tries);
	CHECK_EQ(second->state, CAP_ARMING);
	heal_store(broken);
	WAIT(&f, second->state == CAP_RUNNING);
	CHECK_EQ(a.arms, 2);
	CHECK(a.t0_ns == second->t0_ns);
	fake_forget(&a);
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
	CHECK(!answered(&f, c).failed);
	CHECK_EQ(c->state, CAP_FAILED);
	fleet_check_failed(&f, c->session);
	fake_forget(&a);
	fleet_stop(&f);
}

int main(void)
{
	test_stop();
	test_two_stops();
	test_stop_of_what_waited();
	test_cancel();
	test_store_fails();
	test_failure_to_commit_deletes_nothing();
	test_plan_refused();
	test_store_fails_as_the_queue_moves();
	test_failure_is_durable();
	return 0;
}
