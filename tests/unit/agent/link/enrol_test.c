/* SPDX-License-Identifier: Apache-2.0 */
/* A host's certificate: how it is renewed, the link with it, and what failures leave as it was. */
#include "agent/link/enrol.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/link/control.h"
#include "base/conf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/cert.h"
#include "proto/tutti/v1/enrol.pb-c.h"
#include "tests/lib/check.h"
#include "tests/sim/sim.h"
#include "tests/unit/agent/core_fixture.h"
#include "tests/unit/agent/link/fake_aggregator.h"

#define SESSION "2026_11_21_12_00_00_abc123"
#define OTHER	"2026_11_21_12_00_01_abc123"
#define LIFE_NS (1000 * NS_PER_S)
#define ASKED	16
#define TOKEN	"a-token-of-forty-characters-or-some-more"

static const struct tracer_ops *const fakes[] = { &fake_now_ops, NULL };

/* Gives certificates. */
struct office {
	struct cert_authority *ca;
	enum rpc_code refuse_certificate,
		refuse_token; /* not RPC_OK: the answer to such requests */
	bool silent; /* gives no answer */
	int asked, by_token;
	int64_t asked_mono_ns[ASKED];
};

struct rig {
	struct fixture f;
	struct fake_aggregator agg;
	struct office office;
	struct rpc *rpc;
	struct control *control;
	char *token_file, *folder;
};

/* ---- the office ---- */

static void give(struct office *o, struct rpc_call *call, const Tutti__V1__EnrolRequest *m)
{
	const int64_t now_s = now_real_ns() / NS_PER_S;
	const struct cert_host host = {
		.name = "host-a", .epoch = 1, .begin_s = now_s, .end_s = now_s + LIFE_NS / NS_PER_S
	};
	Tutti__V1__EnrolReply reply = TUTTI__V1__ENROL_REPLY__INIT;
	struct buf pem = BUF_INIT;
	uint8_t bytes[CERT_PEM_BYTES];
	struct err e;

	CHECK_OK(cert_sign_host(o->ca, m->request.data, m->request.len, &host, &pem, &e), e);
	reply.certificate = (char *)buf_str(&pem);
	reply.life_ns = LIFE_NS;
	rpc_send(call, bytes, tutti__v1__enrol_reply__pack(&reply, bytes));
	rpc_finish(call, RPC_OK, "");
	buf_release(&pem);
}

static bool on_request(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct office *o = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__EnrolRequest *m = tutti__v1__enrol_request__unpack(NULL, len, data);
	enum rpc_code refuse;

	CHECK(m && o->asked < ASKED);
	o->asked_mono_ns[o->asked++] = now_mono_ns();
	o->by_token += *m->token != 0;
	refuse = *m->token ? o->refuse_token : o->refuse_certificate;
	if (refuse)
		rpc_finish(call, refuse, "not so");
	else if (!o->silent)
		give(o, call, m);
	tutti__v1__enrol_request__free_unpacked(m, NULL);
	return true;
}

static const struct rpc_events office_events = { .message = on_request };

static void office_open(struct office *o)
{
	struct buf key = BUF_INIT, cert = BUF_INIT;
	struct err e;

	CHECK_OK(cert_make_authority(now_real_ns() / NS_PER_S, &key, &cert, &e), e);
	CHECK_OK(cert_authority_new(&o->ca, buf_str(&key), buf_str(&cert), &e), e);
	buf_release(&key);
	buf_release(&cert);
}

/* ---- the rig ---- */

static void new_control(struct rig *g)
{
	static const struct rpc_tls tls;
	static const struct conf_list labels;
	char aggregator[32];
	const struct enrol_env enrol = { .loop = g->f.loop,
					 .rpc = g->rpc,
					 .host = "host-a",
					 .folder = g->folder,
					 .token_file = g->token_file,
					 .tls = &tls };
	const struct link_env env = { .loop = g->f.loop,
				      .rpc = g->rpc,
				      .clock = g->f.clock,
				      .marks = g->f.marks,
				      .spool = g->f.spool,
				      .captures = g->f.captures,
				      .tracers = g->f.tracers,
				      .host = "host-a",
				      .labels = &labels,
				      .profiler_address = "",
				      .aggregator = aggregator,
				      .enrol = &enrol,
				      .reconnect_max_ns = 20 * NS_PER_S };
	struct err e;

	snprintf(aggregator, sizeof(aggregator), "127.0.0.1:%d", g->agg.port);
	CHECK_OK(control_new(&g->control, &env, &e), e);
}

static void run(struct rig *g, int64_t ns)
{
	int64_t end_ns = now_mono_ns() + ns;

	while (now_mono_ns() < end_ns)
		loop_turn(g->f.loop, RUN_TURN_MS);
}

/* Turns the loop until the counter has reached n; the link is there all the time. */
static void until(struct rig *g, const int *counter, int n)
{
	int64_t end_ns = now_mono_ns() + LIFE_NS;

	while (*counter < n) {
		CHECK(now_mono_ns() < end_ns);
		CHECK(control_is_connected(g->control));
		loop_turn(g->f.loop, RUN_TURN_MS);
	}
}

/* With a link, by a certificate that the token has brought. */
static void rig_up(struct rig *g)
{
	const struct rpc_method method = { "/tutti.v1.Enrol/Enrol", &office_events, &g->office, 0 };
	struct err e;

	*g = (struct rig){ 0 };
	office_open(&g->office);
	fixture_up(&g->f, fakes, 1 << 30);
	CHECK_OK(rpc_new(&g->rpc, g->f.loop, &e), e);
	fake_aggregator_up_with(&g->agg, g->f.loop, g->rpc, &method);
	g->folder = xasprintf("%s/identity", g->f.dir);
	g->token_file = xasprintf("%s/token", g->f.dir);
	CHECK_OK(file_replace(g->token_file, 0600, TOKEN, strlen(TOKEN), &e), e);
	new_control(g);
	RUN_UNTIL(g->f.loop, control_is_connected(g->control));
	CHECK(g->office.asked == 1 && g->office.by_token == 1);
}

static void rig_down(struct rig *g)
{
	control_free(g->control);
	fake_aggregator_down(&g->agg);
	captures_free(g->f.captures);
	g->f.captures = NULL;
	rpc_free(g->rpc);
	fixture_down(&g->f);
	cert_authority_free(g->office.ca);
	free(g->token_file);
	free(g->folder);
}

/* ---- the link ---- */

/* A link with the new certificate takes the place of the one before, and no moment is without one. The aggregator has no
 * further connection of an agent that has its certificate. */
static void test_link_is_replaced(void)
{
	struct rig g;

	rig_up(&g);
	run(&g, NS_PER_S);
	CHECK_EQ(wire_connections(), 1);
	until(&g, &g.agg.statuses, 2);
	until(&g, &g.agg.hellos, 2);
	run(&g, NS_PER_S);
	CHECK(control_is_connected(g.control));
	CHECK_EQ(g.agg.links, 2);
	CHECK(g.office.asked == 2 && g.office.by_token == 1);
	CHECK_EQ(wire_connections(), 1);
	rig_down(&g);
}

/* The present link serves a whole capture. */
static void check_link(struct rig *g)
{
	int results = g->agg.results;

	fake_arm(&g->agg, SESSION, 20 * NS_PER_MS, 10 * NS_PER_MS, NULL);
	fake_upload(&g->agg, SESSION);
	until(g, &g->agg.results, results + 1);
	CHECK(g->agg.has_file);
	fake_release(&g->agg, SESSION);
}

/* A second link that ends before its Welcome leaves the first one as it is, and another one follows. */
static void test_second_link_is_refused(void)
{
	static const enum rpc_code codes[] = { RPC_UNAVAILABLE, RPC_UNAUTHENTICATED };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		struct rig g;

		rig_up(&g);
		g.agg.refuse_links = codes[i];
		until(&g, &g.agg.links, 2);
		run(&g, NS_PER_S);
		CHECK(control_is_connected(g.control));
		check_link(&g);
		until(&g, &g.agg.links, 4);
		CHECK_EQ(g.agg.lost, 0);
		g.agg.refuse_links = RPC_OK;
		until(&g, &g.agg.hellos, 2);
		check_link(&g);
		CHECK_EQ(g.agg.lost, 0);
		CHECK_EQ(g.office.by_token, 1);
		rig_down(&g);
	}
}

/* The same where no answer comes: what the agent says meanwhile is said again over the first one. */
static void test_second_link_is_silent(void)
{
	struct rig g;

	rig_up(&g);
	g.agg.ignore_links = true;
	until(&g, &g.agg.links, 2);
	run(&g, NS_PER_S);
	fake_arm(&g.agg, OTHER, 600 * NS_PER_S, NS_PER_S, NULL);
	until(&g, &g.agg.armed, 1);
	fake_cancel_capture(&g.agg, OTHER);
	until(&g, &g.agg.links, 3);
	run(&g, NS_PER_S);
	check_link(&g);
	g.agg.ignore_links = false;
	until(&g, &g.agg.hellos, 2);
	check_link(&g);
	rig_down(&g);
}

/* A link that breaks while the second one has no answer: the agent dials. */
static void test_first_link_breaks(void)
{
	struct rig g;

	rig_up(&g);
	g.agg.ignore_links = true;
	until(&g, &g.agg.links, 2);
	rpc_finish(g.agg.control, RPC_UNAVAILABLE, "gone");
	run(&g, NS_PER_S);
	g.agg.ignore_links = false;
	run(&g, 100 * NS_PER_S);
	CHECK(control_is_connected(g.control));
	CHECK_EQ(g.agg.hellos, 2);
	check_link(&g);
	rig_down(&g);
}

/* ---- the certificate ---- */

/* An error that passes says nothing of the certificate: it is used on, the token is not shown, and the pauses grow. */
static void test_errors_that_pass(void)
{
	static const enum rpc_code codes[] = { RPC_DEADLINE_EXCEEDED, RPC_RESOURCE_EXHAUSTED,
					       RPC_INTERNAL, RPC_UNAVAILABLE };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		struct rig g;
		const int64_t *at = g.office.asked_mono_ns;

		rig_up(&g);
		g.office.refuse_certificate = codes[i];
		until(&g, &g.office.asked, 6);
		CHECK(at[2] - at[1] < 16 * NS_PER_S && at[5] - at[4] > 39 * NS_PER_S);
		g.office.refuse_certificate = RPC_OK;
		until(&g, &g.agg.hellos, 2);
		CHECK_EQ(g.office.by_token, 1);
		CHECK_EQ(g.agg.lost, 0);
		rig_down(&g);
	}
}

/* A certificate that is refused: the token at once; if that is refused, too, both once more later. */
static void test_refused(void)
{
	static const enum rpc_code codes[] = { RPC_PERMISSION_DENIED, RPC_UNAUTHENTICATED };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		struct rig g;

		rig_up(&g);
		g.office.refuse_certificate = g.office.refuse_token = codes[i];
		until(&g, &g.office.asked, 4);
		CHECK_EQ(g.office.by_token, 2);
		g.office.refuse_token = RPC_OK;
		until(&g, &g.agg.hellos, 2);
		CHECK_EQ(g.office.by_token, 3);
		rig_down(&g);
	}
}

/* A certificate that cannot be kept is none: the one before stays. */
static void test_not_saved(void)
{
	char *path;
	struct rig g;

	rig_up(&g);
	path = xasprintf("%s/agent.pem.new", g.folder);
	CHECK(!mkdir(path, 0700));
	until(&g, &g.office.asked, 3);
	CHECK(g.office.by_token == 1 && g.agg.hellos == 1);
	CHECK(!rmdir(path));
	until(&g, &g.agg.hellos, 2);
	CHECK_EQ(g.office.by_token, 1);
	free(path);
	rig_down(&g);
}

/* An agent that stops while it asks, and while the answer is on its way to the file. */
static void test_stop(void)
{
	struct rig g;

	rig_up(&g);
	g.office.silent = true;
	until(&g, &g.office.asked, 2);
	rig_down(&g);
	rig_up(&g);
	until(&g, &g.office.asked, 2);
	rig_down(&g);
}

int main(void)
{
	test_link_is_replaced();
	test_second_link_is_refused();
	test_second_link_is_silent();
	test_first_link_breaks();
	test_errors_that_pass();
	test_refused();
	test_not_saved();
	test_stop();
	return 0;
}
