/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots that an agent requests itself: tried again for a minute, at most ten in a minute. */
#include "agent/snapshot_requests.h"

#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/unit/agent/core_fixture.h"
#include "tests/unit/agent/link/fake_aggregator.h"

#define SESSION	 "2026_11_21_12_00_00_abc123"
#define AGAIN_NS (5 * NS_PER_S)
#define SOON_NS	 NS_PER_S /* for a message and its answer */

static const struct tracer_ops *const fakes[] = { &fake_now_ops, NULL };

struct rig {
	struct fixture f;
	struct fake_aggregator agg;
	struct rpc *rpc;
	struct control *control;
	struct snapshot_requests *requests;
	char aggregator[32];
};

static void rig_up(struct rig *g)
{
	static const struct conf_list labels = { 0 };
	struct link_env env;
	struct err e;

	fixture_up(&g->f, fakes, 1 << 30);
	CHECK_OK(rpc_new(&g->rpc, g->f.loop, &e), e);
	fake_aggregator_up(&g->agg, g->f.loop, g->rpc);
	snprintf(g->aggregator, sizeof(g->aggregator), "127.0.0.1:%d", g->agg.port);
	env = (struct link_env){
		.loop = g->f.loop,
		.rpc = g->rpc,
		.clock = g->f.clock,
		.marks = g->f.marks,
		.spool = g->f.spool,
		.captures = g->f.captures,
		.tracers = g->f.tracers,
		.host = "host-a",
		.labels = &labels,
		.profiler_address = "",
		.aggregator = g->aggregator,
		.reconnect_max_ns = 20 * NS_PER_S,
	};
	CHECK_OK(control_new(&g->control, &env, &e), e);
	g->requests = snapshot_requests_new(g->f.loop, g->f.clock, g->control);
}

static void rig_down(struct rig *g)
{
	snapshot_requests_free(g->requests);
	control_free(g->control);
	fake_aggregator_down(&g->agg);
	captures_free(g->f.captures);
	g->f.captures = NULL;
	rpc_free(g->rpc);
	fixture_down(&g->f);
}

static bool is_calibrated(void *arg)
{
	const struct fake_aggregator *a = arg;

	return a->calibrated;
}

static void request(struct rig *g, const char *run)
{
	int64_t now_ns = now_real_ns();

	snapshot_request(g->requests, now_ns - 3 * NS_PER_S, now_ns - 2 * NS_PER_S, run);
}

/* The link is down and the clock not measured at first: it is asked later, for the same window. */
static void test_request_comes_early(void)
{
	struct rig g = { 0 };
	int64_t session_ns, off_ns;

	rig_up(&g);
	session_ns = fake_session_now(&g.agg);
	request(&g, "run-a");
	CHECK_EQ(g.agg.asks, 0);
	run_for(g.f.loop, AGAIN_NS + SOON_NS);
	CHECK_EQ(g.agg.asks, 1);
	CHECK_STR(g.agg.ask_run, "run-a");
	off_ns = g.agg.ask_ending_at_ns - (session_ns - 2 * NS_PER_S);
	CHECK(off_ns > -NS_PER_MS && off_ns < NS_PER_MS);
	off_ns = g.agg.ask_duration_ns - NS_PER_S;
	CHECK(off_ns > -NS_PER_MS && off_ns < NS_PER_MS);
	fake_answer(&g.agg, g.agg.ask_id, true, SESSION);
	run_for(g.f.loop, 120 * NS_PER_S);
	CHECK_EQ(g.agg.asks, 1);
	rig_down(&g);
}

static void test_refusal_is_tried_again(void)
{
	struct rig g = { 0 };

	rig_up(&g);
	fixture_until(&g.f, is_calibrated, &g.agg);
	request(&g, "no name of a run: /");
	run_for(g.f.loop, SOON_NS);
	for (int i = 1; i <= 12; i++) {
		CHECK_EQ(g.agg.asks, i);
		CHECK_STR(g.agg.ask_run, "");
		fake_answer(&g.agg, g.agg.ask_id, false, "");
		run_for(g.f.loop, AGAIN_NS + SOON_NS);
	}
	run_for(g.f.loop, 120 * NS_PER_S); /* it is given up */
	CHECK_EQ(g.agg.asks, 12);
	rig_down(&g);
}

/* Requests n snapshots; the aggregator takes each that it is asked for. */
static void request_many(struct rig *g, int n)
{
	for (int i = 0; i < n; i++) {
		int asks = g->agg.asks;

		request(g, "run-a");
		run_for(g->f.loop, 100 * NS_PER_MS);
		if (g->agg.asks > asks)
			fake_answer(&g->agg, g->agg.ask_id, true, SESSION);
	}
}

static void test_ten_in_a_minute(void)
{
	struct rig g = { 0 };

	rig_up(&g);
	fixture_until(&g.f, is_calibrated, &g.agg);
	request_many(&g, 15);
	CHECK_EQ(g.agg.asks, 10);
	run_for(g.f.loop, 57 * NS_PER_S);
	request_many(&g, 5);
	CHECK_EQ(g.agg.asks, 10);
	run_for(g.f.loop, 3 * NS_PER_S);
	request_many(&g, 15);
	CHECK_EQ(g.agg.asks, 20);
	rig_down(&g);
}

static void test_end_with_a_question(void)
{
	struct rig g = { 0 };

	rig_up(&g);
	fixture_until(&g.f, is_calibrated, &g.agg);
	request(&g, "run-a");
	rig_down(&g); /* its answer comes after the end */
}

static void test_end_while_one_waits(void)
{
	struct rig g = { 0 };

	rig_up(&g);
	request(&g, "run-a"); /* for the link */
	rig_down(&g);
}

int main(void)
{
	test_request_comes_early();
	test_refusal_is_tried_again();
	test_ten_in_a_minute();
	test_end_with_a_question();
	test_end_while_one_waits();
	return 0;
}
