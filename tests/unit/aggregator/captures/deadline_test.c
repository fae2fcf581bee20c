/* SPDX-License-Identifier: Apache-2.0 */
/* How long a capture waits for its hosts after the window. */
#include "aggregator/captures/capture_impl.h"
#include "base/mem.h"
#include "tests/unit/aggregator/fleet.h"

#define GRACE_NS (2 * NS_PER_S) /* a busy store takes a part of it */

static struct capture *begin(struct fleet *f, int64_t duration_ns, int64_t grace_ns)
{
	const struct capture_request req = {
		.duration_ns = duration_ns,
		.grace_ns = grace_ns,
		.origin = "test",
	};
	struct err e = { 0 };
	struct capture *c = NULL;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	return c;
}

static int64_t end_ns(const struct capture *c)
{
	return c->t0_ns + c->duration_ns;
}

static void test_length(void)
{
	const struct {
		int64_t configured_ns, duration_ns, given_ns, expected_ns;
	} rows[] = {
		{ 60 * NS_PER_S, NS_PER_S, 0, 60 * NS_PER_S },
		{ 60 * NS_PER_S, 40 * NS_PER_S, 0, 80 * NS_PER_S },
		{ 60 * NS_PER_S, 40 * NS_PER_S, 5 * NS_PER_S, 5 * NS_PER_S },
		{ 60 * NS_PER_S, LIMIT_DURATION_NS, 0, LIMIT_GRACE_NS },
		{ NS_PER_S, NS_PER_S, LIMIT_GRACE_NS, LIMIT_GRACE_NS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fleet f;
		struct fake a = { 0 };
		struct capture *c;

		fleet_start(&f, 0, rows[i].configured_ns);
		fake_connect(&a, &f, "a");
		c = begin(&f, rows[i].duration_ns, rows[i].given_ns);
		CHECK_EQ(c->grace_ns, rows[i].expected_ns);
		CHECK_EQ(c->deadline_ns, end_ns(c) + rows[i].expected_ns);
		CHECK(c->last_ns >= c->deadline_ns && c->last_ns <= end_ns(c) + LIMIT_GRACE_NS);
		WAIT(&f, a.arms);
		CHECK_EQ(a.deadline_ns, c->last_ns);
		CHECK(a.gather_by_ns > end_ns(c) + c->grace_ns / 4);
		CHECK(a.gather_by_ns < c->deadline_ns);
		CHECK(capture_cancel(c));
		fleet_wait_over(&f, c->session);
		fleet_stop(&f);
	}
}

static void test_bounds(void)
{
	struct capture_request req = { .duration_ns = NS_PER_S, .grace_ns = LIMIT_GRACE_NS + 1 };
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	CHECK_EQ(capture_begin(f.agg.captures, &req, &c, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "grace_ns"));
	fleet_stop(&f);
}

/* A caller who is answered by an instant at the latest is: the grace is shorter, but never too short for a file. */
static void test_caller(void)
{
	const struct {
		int64_t within_ns, grace_ns;
	} rows[] = { { 5 * NS_PER_S, 4 * NS_PER_S }, { NS_PER_S, NS_PER_S } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct capture_request req = { .duration_ns = NS_PER_S, .origin = "test" };
		struct fake a = { 0 };
		struct capture *c;
		struct fleet f;
		struct err e = { 0 };

		fleet_start(&f, 0, 60 * NS_PER_S);
		fake_connect(&a, &f, "a");
		req.commit_by_ns = session_clock_now(&f.agg.clock) + rows[i].within_ns;
		CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
		CHECK(c->grace_ns <= rows[i].grace_ns && c->grace_ns > rows[i].grace_ns - NS_PER_S);
		CHECK_EQ(c->last_ns, c->deadline_ns);
		CHECK(c->last_ns == req.commit_by_ns || i);
		fleet_wait_over(&f, c->session);
		CHECK(session_clock_now(&f.agg.clock) < c->last_ns + NS_PER_S);
		fleet_stop(&f);
	}
}

/* A window that is stopped has the grace of its shorter length, and so do its agents. */
static void test_stop(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;

	fleet_start(&f, 0, GRACE_NS);
	fake_connect(&a, &f, "a");
	c = begin(&f, 1000 * NS_PER_S, 0);
	CHECK_EQ(c->grace_ns, 2000 * NS_PER_S);
	WAIT(&f, a.arms);
	fake_armed(&a);
	WAIT(&f, c->state == CAP_RUNNING);
	capture_stop(c);
	WAIT(&f, a.stops == 1);
	CHECK_EQ(a.t1_ns, end_ns(c));
	CHECK(a.gather_by_ns > a.t1_ns && a.gather_by_ns < c->deadline_ns);
	CHECK(c->deadline_ns < end_ns(c) + 2000 * NS_PER_S);
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).reason, "timeout");
	CHECK(strstr(fleet_result(c, 0).detail, "--grace"));
	fleet_stop(&f);
}

/* A host that makes its file is waited for as long as it says so; one that says nothing is not. */
static void test_progress(void)
{
	struct fleet f;
	struct fake a = { 0 }, b = { .auto_deliver = true };
	struct capture *c;

	fleet_start(&f, 0, GRACE_NS);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, a.arms);
	fake_armed(&a);
	while (session_clock_now(&f.agg.clock) < end_ns(c) + 3 * GRACE_NS) {
		int64_t next_ns = now_mono_ns() + GRACE_NS / 5;

		fake_progress(&a, "gathering", 0);
		WAIT(&f, now_mono_ns() >= next_ns);
	}
	CHECK_EQ(c->state, CAP_UPLOADING);
	CHECK_EQ(fake_upload(&a, 1, 100, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).state, "complete");
	fleet_stop(&f);
}

/* One that said so, and says nothing more, is not waited for either: the grace is over. */
static void test_silence(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;

	fleet_start(&f, 0, GRACE_NS);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, a.arms);
	fake_armed(&a);
	WAIT(&f, session_clock_now(&f.agg.clock) > end_ns(c) + GRACE_NS / 4);
	fake_progress(&a, "gathering", 0);
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).reason, "timeout");
	CHECK(session_clock_now(&f.agg.clock) < end_ns(c) + 2 * GRACE_NS);
	fleet_stop(&f);
}

/* As long as hosts answer Arm, one that has not is waited for. */
static void test_arming(void)
{
	struct fake fakes[6] = { 0 };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 60 * NS_PER_S);
	f.agg.patience.arm_ns = 2 * NS_PER_S;
	for (size_t i = 0; i < ARRAY_SIZE(fakes); i++)
		fake_connect(&fakes[i], &f, (char[]){ (char)('a' + i), 0 });
	c = begin(&f, 30 * NS_PER_S, 0);
	for (size_t i = 0; i + 1 < ARRAY_SIZE(fakes); i++) {
		int64_t next_ns = now_mono_ns() + NS_PER_S;

		WAIT(&f, fakes[i].arms && now_mono_ns() >= next_ns);
		fake_armed(&fakes[i]);
	}
	CHECK(session_clock_now(&f.agg.clock) > c->t0_ns + 2 * f.agg.patience.arm_ns);
	WAIT(&f, capture_host_has_ended(&c->hosts[5]));
	CHECK_STR(fleet_result(c, 5).reason, "unresponsive");
	for (size_t i = 0; i + 1 < ARRAY_SIZE(fakes); i++)
		CHECK(!capture_host_has_ended(&c->hosts[i]));
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	fleet_stop(&f);
}

/* Progress without end is no way to hold a capture. */
static void test_last(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;

	fleet_start(&f, 0, GRACE_NS / 2);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, a.arms);
	fake_armed(&a);
	while (!capture_has_ended(c)) {
		int64_t next_ns = now_mono_ns() + GRACE_NS / 20;

		fake_progress(&a, "gathering", 0);
		WAIT(&f, now_mono_ns() >= next_ns);
	}
	CHECK(session_clock_now(&f.agg.clock) < c->last_ns + 5 * NS_PER_S);
	CHECK_EQ(c->deadline_ns, c->last_ns);
	CHECK_STR(fleet_result(c, 0).reason, "timeout");
	fleet_stop(&f);
}

static bool is_behind(void *arg)
{
	return *(bool *)arg;
}

/* While the aggregator has not read what came, no host fails for want of its answer; but not for longer than the grace. */
static void test_behind(bool for_long)
{
	struct fake a = { 0 }, b = { 0 };
	bool behind = true;
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 3 * NS_PER_S);
	f.agg.patience.arm_ns = 300 * NS_PER_MS;
	f.agg.captures->env.is_behind = is_behind;
	f.agg.captures->env.behind_arg = &behind;
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = begin(&f, 3 * NS_PER_S, 0);
	WAIT(&f, a.arms && b.arms);
	WAIT(&f, session_clock_now(&f.agg.clock) > c->t0_ns + 5 * f.agg.patience.arm_ns);
	CHECK_EQ(c->hosts[0].state, HOST_ARMING);
	fake_armed(&a);
	WAIT(&f, c->hosts[0].state == HOST_ARMED);
	behind = for_long;
	WAIT(&f, capture_host_has_ended(&c->hosts[1]));
	CHECK_STR(fleet_result(c, 1).reason, "unresponsive");
	CHECK_EQ(session_clock_now(&f.agg.clock) >= c->deadline_ns, for_long);
	CHECK(session_clock_now(&f.agg.clock) < c->deadline_ns + NS_PER_S);
	fleet_stop(&f);
}

int main(void)
{
	test_length();
	test_bounds();
	test_caller();
	test_stop();
	test_progress();
	test_silence();
	test_arming();
	test_behind(false);
	test_behind(true);
	test_last();
	return 0;
}
