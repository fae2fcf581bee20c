/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that say that another one follows them: captures wait for that one, and ask it what its predecessor left. */
#include "aggregator/captures/capture.h"
#include "tests/unit/aggregator/fleet.h"

#define SOON_NS (10 * NS_PER_MS)

static void send_leaving(struct fake *a, int64_t back_within_ns)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Leaving leaving = TUTTI__V1__LEAVING__INIT;
	const struct host *h = registry_find(a->fleet->agg.registry, a->name);

	leaving.back_within_ns = back_within_ns;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_LEAVING;
	m.leaving = &leaving;
	fake_send(a, &m);
	WAIT(a->fleet, h->back_within_ns == back_within_ns);
}

static void disconnect(struct fake *a)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Disconnect message = TUTTI__V1__DISCONNECT__INIT;

	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_DISCONNECT;
	m.disconnect = &message;
	fake_send(a, &m);
	WAIT(a->fleet, !a->call);
}

/* A capture that is requested meanwhile waits, and says for which agent. */
static void test_requested_meanwhile(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .auto_deliver = true }, b = a, next = a;
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	send_leaving(&a, 60 * NS_PER_S);
	c = fleet_begin(&f);
	CHECK_EQ(c->state, CAP_QUEUED);
	CHECK(strstr(c->waits_for, "agent of a"));
	disconnect(&a);
	CHECK(registry_find(f.agg.registry, "a"));
	CHECK_EQ(c->state, CAP_QUEUED);
	CHECK_EQ(a.arms + b.arms, 0);
	fake_connect(&next, &f, "a");
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).state, "complete");
	CHECK_STR(fleet_result(c, 1).state, "complete");
	CHECK_EQ(next.arms, 1);
	fleet_stop(&f);
}

/* What the leaving agent was asked for, and had not begun, the next one is asked for. */
static void test_left_unbegun(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct fake next = { .auto_arm = true, .auto_deliver = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	send_leaving(&a, 60 * NS_PER_S);
	disconnect(&a);
	fake_connect(&next, &f, "a");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(next.arms, 1);
	CHECK_STR(fleet_result(c, 0).state, "complete");
	fleet_stop(&f);
}

/* What it had begun is lost with it, unless the next one brings its file. */
static void test_left_begun(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, next = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	fake_progress(&a, "running", 0);
	WAIT(&f, fleet_host_is(c, 0, "running"));
	send_leaving(&a, 60 * NS_PER_S);
	disconnect(&a);
	CHECK(fleet_host_is(c, 0, "running"));
	fake_connect(&next, &f, "a");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(next.arms, 0);
	CHECK_STR(fleet_result(c, 0).reason, "lost");
	fleet_stop(&f);
}

/* No agent follows: then the capture begins without the host, which is forgotten. */
static void test_none_follows(void)
{
	struct fleet f;
	struct fake a = { 0 }, b = { .auto_arm = true, .auto_deliver = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	send_leaving(&a, SOON_NS);
	disconnect(&a);
	c = fleet_begin(&f);
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).state, "failed");
	CHECK_STR(fleet_result(c, 1).state, "complete");
	WAIT(&f, registry_forget_lost(f.agg.registry, now_real_ns()) == 1);
	CHECK(!registry_find(f.agg.registry, "a"));
	fleet_stop(&f);
}

/* A caller that may not wait gets what there is; a host that comes back within the window records the rest. */
static void test_may_not_wait(void)
{
	const struct capture_request req = { .duration_ns = 600 * NS_PER_S,
					     .wait_ns = -1,
					     .origin = "test" };
	struct fleet f;
	struct fake a = { 0 }, next = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	send_leaving(&a, 60 * NS_PER_S);
	disconnect(&a);
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	CHECK(!capture_is_queued(c));
	WAIT(&f, c->state == CAP_RUNNING);
	fake_connect(&next, &f, "a");
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_STR(next.session, c->session);
	fleet_stop(&f);
}

int main(void)
{
	test_requested_meanwhile();
	test_left_unbegun();
	test_left_begun();
	test_none_follows();
	test_may_not_wait();
	return 0;
}
