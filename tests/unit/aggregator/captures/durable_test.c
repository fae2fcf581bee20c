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

	WAIT(f, c->state == CAP_RUNNING && c->hosts[0].state == HOST_ARMED);
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
	CHECK(strstr(c->not_durable.msg, "failed as told"));
	CHECK_OK(store_fault_set(broken, "", &e), e);
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
	return 0;
}
