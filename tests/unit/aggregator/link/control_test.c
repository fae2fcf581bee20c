/* SPDX-License-Identifier: Apache-2.0 */
/* The control stream: who may speak, in what order, and what the socket of a host may ask for. */
#include "aggregator/link/control.h"
#include "tests/unit/aggregator/fleet.h"

static void check_refused(struct fleet *f, struct fake *a, const char *part)
{
	uint64_t before = control_stats(f->agg.control)->bad_messages;

	WAIT(f, !a->call);
	CHECK_EQ(a->code, RPC_INVALID_ARGUMENT);
	CHECK(strstr(a->text, part));
	CHECK(control_stats(f->agg.control)->bad_messages >= before);
}

static void test_bad_messages(void)
{
	struct fleet f;
	struct fake a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }, g = { 0 };

	fleet_start(&f, 0, 0);
	fake_dial(&a, &f, "a", 1);
	rpc_send(a.call, "\xff\xff\xff", 3);
	check_refused(&f, &a, "");
	fake_dial(&b, &f, "b", 1);
	fake_progress(&b, "running", 0);
	check_refused(&f, &b, "");
	fake_dial(&c, &f, "../c", 1);
	fake_hello(&c, NULL, NULL);
	check_refused(&f, &c, "host name");
	fake_dial(&d, &f, "d", 0);
	fake_hello(&d, NULL, NULL);
	check_refused(&f, &d, "instance");
	fake_connect(&g, &f, "g");
	fake_hello(&g, NULL, NULL);
	check_refused(&f, &g, "second Hello");
	CHECK_EQ(control_stats(f.agg.control)->bad_messages, 5);
	CHECK_EQ(registry_count(f.agg.registry, NULL), 1);
	fleet_stop(&f);
}

static void test_hello(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct host *h;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	h = registry_find(f.agg.registry, "a");
	CHECK(h && h->control);
	CHECK_STR(h->version, "1.2.3");
	CHECK_STR(h->label_keys[0], "job");
	CHECK_STR(h->tracers[0].name, "cpu");
	CHECK_EQ(a.cookie, h->probe_cookie);
	CHECK_EQ(a.epoch, f.agg.clock.epoch);
	CHECK_EQ(a.probe_port, f.agg.probe_port);
	fake_hang_up(&a);
	CHECK(registry_find(f.agg.registry, "a") == h); /* lost, but known */
	a.welcomes = 0;
	fake_connect(&a, &f, "a"); /* a new agent in its place */
	CHECK(registry_find(f.agg.registry, "a") == h);
	CHECK(h->control);
	fleet_stop(&f);
}

static void test_duplicate_name(void)
{
	struct fleet f;
	struct fake a = { 0 }, b = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_dial(&b, &f, "a", a.instance + 1);
	fake_hello(&b, NULL, NULL);
	WAIT(&f, !b.call);
	CHECK_EQ(b.code, RPC_ALREADY_EXISTS);
	WAIT(&f, a.pokes == 1); /* the one that has the name must show that it is there */
	CHECK(strstr(b.text, "127.0.0.1:"));
	CHECK(a.call && registry_find(f.agg.registry, "a")->control);
	fleet_stop(&f);
}

/* The same agent over a new connection: the old one gives way, its captures go on. */
static void test_same_agent_again(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, again = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	snprintf(again.session, sizeof(again.session), "%s", c->session);
	snprintf(again.held, sizeof(again.held), "%s", c->session);
	snprintf(again.held_state, sizeof(again.held_state), "running");
	fake_dial(&again, &f, "a", a.instance);
	fake_hello(&again, NULL, NULL);
	WAIT(&f, again.welcomes && !a.call);
	CHECK_EQ(a.code, RPC_ABORTED);
	CHECK_EQ(fake_upload(&again, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&again, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	fleet_stop(&f);
}

/* Trust: a word of an agent is no reason of the manifest. */
static void test_reason_of_no_table(void)
{
	static const char *const words[] = { "made-up", "cancelled" };

	for (int i = 0; i < 2; i++) {
		struct fleet f;
		struct fake a = { .auto_arm = true };
		struct capture *c;
		char detail[301], want[400];

		for (size_t n = 0; n < sizeof(detail) - 1; n++)
			detail[n] = "\xc3\xa4 "[n % 3];
		detail[sizeof(detail) - 1] = '\0';
		fleet_start(&f, 0, 0);
		fake_connect(&a, &f, "a");
		c = fleet_begin(&f);
		WAIT(&f, c->hosts[0].state == HOST_ARMED);
		fake_result(&a, false, words[i], detail);
		fleet_wait_over(&f, c->session);
		CHECK_STR(c->hosts[0].reason, "other");
		snprintf(want, sizeof(want), "%s: %s", words[i], detail);
		CHECK_STR(c->hosts[0].detail, want); /* whole */
		fleet_stop(&f);
	}
}

/* A time of a step out of range costs the host its steps, not its link: the agent would send the same result
 * again at each reconnect. */
static void test_steps_of_result_out_of_range(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__HostResult result = TUTTI__V1__HOST_RESULT__INIT;
	Tutti__V1__StepsSeen steps = TUTTI__V1__STEPS_SEEN__INIT;
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, c->hosts[0].state == HOST_ARMED);
	steps.first_at_ns = -1;
	steps.end_at_ns = INT64_MAX;
	result.session = a.session;
	result.reason = (char *)"assemble";
	result.steps = &steps;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	m.result = &result;
	fake_send(&a, &m);
	fleet_wait_over(&f, c->session);
	CHECK_STR(c->hosts[0].reason, "assemble");
	CHECK(!c->hosts[0].steps);
	CHECK(a.call);
	CHECK_EQ(control_stats(f.agg.control)->bad_messages, 0);
	fleet_stop(&f);
}

static void test_disconnect(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Disconnect disconnect = TUTTI__V1__DISCONNECT__INIT;
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_DISCONNECT;
	m.disconnect = &disconnect;
	fake_send(&a, &m);
	WAIT(&f, !a.call);
	CHECK_EQ(a.code, RPC_OK);
	CHECK(!registry_find(f.agg.registry, "a"));
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).reason, "lost");
	fleet_stop(&f);
}

static void test_status(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Status status = TUTTI__V1__STATUS__INIT;
	Tutti__V1__ClockModel clock = TUTTI__V1__CLOCK_MODEL__INIT;
	struct fleet f;
	struct fake a = { 0 };
	struct host *h;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	clock.calibrated = true;
	clock.offset_ns = -3 * NS_PER_S;
	clock.bound_ns = 700;
	status.clock = &clock;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STATUS;
	m.status = &status;
	fake_send(&a, &m);
	h = registry_find(f.agg.registry, "a");
	WAIT(&f, h->clock.calibrated);
	CHECK_EQ(h->clock.offset_ns, -3 * NS_PER_S);
	CHECK_EQ(h->n_tracers, 1); /* as Hello said */
	fleet_stop(&f);
}

static void test_ask(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	fake_ask(&a, "start", "", "");
	WAIT(&f, a.answers == 1);
	CHECK(a.answer_ok);
	c = capture_find(f.agg.captures, a.answer_session);
	CHECK(c && c->open_ended);
	CHECK_EQ(c->n_hosts, 1); /* the asking host alone */
	CHECK_STR(c->origin, "local a");
	fake_ask(&b, "stop", c->session, "");
	WAIT(&f, b.answers == 1);
	CHECK(!b.answer_ok);
	fake_ask(&a, "stop", c->session, "");
	WAIT(&f, a.answers == 2);
	CHECK(a.answer_ok);
	CHECK(c->duration_ns < 3600 * NS_PER_S);
	fake_ask(&a, "start", "", "all");
	WAIT(&f, a.answers == 3);
	CHECK_EQ(capture_find(f.agg.captures, a.answer_session)->n_hosts, 2);
	fake_ask(&a, "start", "", "no-such-host");
	WAIT(&f, a.answers == 4);
	CHECK(!a.answer_ok);
	CHECK(strstr(a.answer_detail, "no-such-host"));
	fake_ask(&a, "stop", "2026_01_01_00_00_00_aaaaaa", "");
	WAIT(&f, a.answers == 5);
	CHECK(!a.answer_ok);
	fleet_stop(&f);
}

int main(void)
{
	test_bad_messages();
	test_hello();
	test_duplicate_name();
	test_same_agent_again();
	test_reason_of_no_table();
	test_steps_of_result_out_of_range();
	test_disconnect();
	test_status();
	test_ask();
	return 0;
}
