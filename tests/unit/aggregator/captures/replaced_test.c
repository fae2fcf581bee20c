/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that say that another one follows them: captures wait for that one, and ask it what its predecessor left. */
#include "aggregator/captures/capture.h"
#include "aggregator/link/control.h"
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
	struct capture_request req = { .duration_ns = 10 * NS_PER_MS, .origin = "test" };
	struct err e = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	req.not_before_ns = session_clock_now(&f.agg.clock) + 2 * NS_PER_S; /* it leaves in time */
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	send_leaving(&a, 60 * NS_PER_S);
	disconnect(&a);
	fake_connect(&next, &f, "a");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(next.arms, 1);
	CHECK_STR(fleet_result(c, 0).state, "complete");
	fleet_stop(&f);
}

/* What `a` had begun is lost with it, unless the next one brings its file. */
static void replace_begun(struct fleet *f, struct capture *c, struct fake *a, const char *state)
{
	struct fake next = { .auto_arm = true };

	send_leaving(a, 60 * NS_PER_S);
	disconnect(a);
	CHECK(fleet_host_is(c, 0, state));
	fake_connect(&next, f, "a");
	fleet_wait_over(f, c->session);
	CHECK_EQ(next.arms, 0);
	CHECK_STR(fleet_result(c, 0).reason, "lost");
	fleet_stop(f);
}

static void test_left_begun(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	fake_progress(&a, "running", 0);
	WAIT(&f, fleet_host_is(c, 0, "running"));
	replace_begun(&f, c, &a, "running");
}

/* A short window: its agent has not told yet that it records. */
static void test_left_begun_untold(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, c->state == CAP_RUNNING);
	CHECK(fleet_host_is(c, 0, "armed"));
	replace_begun(&f, c, &a, "armed");
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

static struct capture *begin_snapshot(struct fleet *f)
{
	const struct capture_request req = { .duration_ns = 5 * NS_PER_S,
					     .snapshot = true,
					     .ending_at_ns = session_clock_now(&f->agg.clock),
					     .origin = "test" };
	struct capture *c;
	struct err e = { 0 };

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	return c;
}

/* The next agent has nothing of a window that is over: a snapshot does not wait for it. */
static void test_snapshot_does_not_wait(void)
{
	struct fleet f;
	struct fake a = { 0 }, b = { .auto_arm = true, .auto_deliver = true };
	struct capture *c;
	int64_t start_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	send_leaving(&a, 60 * NS_PER_S);
	disconnect(&a);
	start_ns = now_mono_ns();
	c = begin_snapshot(&f);
	fleet_wait_over(&f, c->session);
	CHECK(now_mono_ns() - start_ns < NS_PER_S);
	CHECK_STR(fleet_result(c, 0).reason, "unreachable");
	CHECK_STR(fleet_result(c, 1).state, "complete");
	fleet_stop(&f);
}

/* Nor is it asked for one that its predecessor had not begun to cut. */
static void test_snapshot_is_not_asked_again(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, next = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_snapshot(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	send_leaving(&a, 60 * NS_PER_S);
	disconnect(&a);
	fake_connect(&next, &f, "a");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(next.arms, 0);
	CHECK_STR(fleet_result(c, 0).reason, "lost");
	fleet_stop(&f);
}

static struct capture *begin_at_once(struct fleet *f)
{
	const struct capture_request req = { .duration_ns = 600 * NS_PER_S,
					     .wait_ns = -1,
					     .origin = "test" };
	struct capture *c;
	struct err e = { 0 };

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	return c;
}

/* No agent of a revoked host is awaited: neither of one that was armed, nor of one that was not there. */
static void test_refused(bool was_armed, const char *reason)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = was_armed ? begin_at_once(&f) : NULL;
	WAIT(&f, !c || fleet_host_is(c, 0, "armed"));
	send_leaving(&a, 60 * NS_PER_S);
	disconnect(&a);
	c = c ? c : begin_at_once(&f);
	CHECK(c->hosts[0].is_left && !capture_has_ended(c));
	control_refuse_host(f.agg.control, "a", "the host is revoked");
	CHECK_EQ(c->n_ended, 1);
	CHECK_STR(fleet_result(c, 0).reason, reason);
	CHECK_STR(fleet_result(c, 0).detail, "the host is revoked");
	CHECK(!registry_find(f.agg.registry, "a"));
	fleet_wait_over(&f, c->session);
	fleet_stop(&f);
}

/* One whose agent is there, or that no capture knows. */
static void test_refused_connected(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = begin_at_once(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	control_refuse_host(f.agg.control, "b", "the host is revoked");
	CHECK_EQ(c->n_ended, 0);
	control_refuse_host(f.agg.control, "a", "the host is revoked");
	CHECK_STR(fleet_result(c, 0).reason, "lost");
	WAIT(&f, !a.call);
	CHECK_EQ(a.code, RPC_UNAUTHENTICATED);
	fleet_wait_over(&f, c->session);
	fleet_stop(&f);
}

int main(void)
{
	test_requested_meanwhile();
	test_left_unbegun();
	test_left_begun();
	test_left_begun_untold();
	test_none_follows();
	test_may_not_wait();
	test_snapshot_does_not_wait();
	test_snapshot_is_not_asked_again();
	test_refused(true, "lost");
	test_refused(false, "unreachable");
	test_refused_connected();
	return 0;
}
