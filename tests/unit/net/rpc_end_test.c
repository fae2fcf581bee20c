/* SPDX-License-Identifier: Apache-2.0 */
/* How calls of net/rpc.h end: statuses, deadlines, cancels, lost peers, servers that stop. */
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/lib/check.h"
#include "tests/unit/net/rpc_fixture.h"

static void test_unknown_method(struct fixture *f)
{
	struct seen *s = seen_new();
	int64_t start_ns = now_mono_ns();

	rpc_unary(f->ch, "/t.T/Nothing", "x", 1, start_ns + 3 * BOUND_NS, got_unary, s);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_UNIMPLEMENTED);
	CHECK_STR(s->text, "no such method: /t.T/Nothing");
	rpc_unary(f->ch, "/nonsense", "x", 1, start_ns + 3 * BOUND_NS, got_unary, s);
	SPIN(f, s->closed == 2);
	CHECK_EQ(s->code, RPC_UNIMPLEMENTED);
	seen_free(s);
}

/* A call with so much time; whether the server saw it before that was over. */
static bool run_out_of_time(struct fixture *f, int64_t left_ns)
{
	struct seen *s = seen_new();
	int64_t at_ns = now_mono_ns() + left_ns;
	bool opened;

	s->call = rpc_open(f->ch, "/t.T/Keep", at_ns, &client_events, s);
	SPIN(f, kept.opened || s->closed);
	opened = kept.opened;
	/* The wire has milliseconds, rounded up, and carries what is left, not an instant. */
	CHECK(!kept.call || rpc_deadline_ns(kept.call) > at_ns - NS_PER_S);
	CHECK(!kept.call || rpc_deadline_ns(kept.call) < now_mono_ns() + left_ns + NS_PER_S);
	SPIN(f, s->closed && (kept.closed || !opened));
	CHECK(now_mono_ns() >= at_ns);
	CHECK_EQ(s->code, RPC_DEADLINE_EXCEEDED);
	if (opened) {
		CHECK_EQ(kept.code, RPC_CANCELLED);
		CHECK_EQ(kept.half_closed, 0);
	}
	seen_free(s);
	return opened;
}

/* On a busy machine the time can be over before the call is on its way. */
static void test_deadline(struct fixture *f)
{
	for (int64_t left_ns = 100 * NS_PER_MS; !run_out_of_time(f, left_ns); left_ns *= 2) {
		rpc_fixture_stop(f);
		rpc_fixture_start(f);
	}
}

static void test_past_deadline(struct fixture *f)
{
	struct seen *s = seen_new();

	rpc_unary(f->ch, "/t.T/Echo", "x", 1, 1, got_unary, s);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_DEADLINE_EXCEEDED);
	seen_free(s);
}

static void test_client_cancels(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");

	rpc_send(s->call, "x", 1);
	SPIN(f, kept.messages == 1);
	rpc_cancel(s->call);
	rpc_send(s->call, "late", 4);
	SPIN(f, s->closed && kept.closed);
	CHECK_EQ(s->code, RPC_CANCELLED);
	CHECK_EQ(kept.code, RPC_CANCELLED);
	CHECK_EQ(kept.half_closed, 0);
	seen_free(s);
}

/* What a lost stream must never look like to a server is one that came to its end. */
static void test_many_cancels(struct fixture *f)
{
	struct seen *s[15];

	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		s[i] = call_open(f, "/t.T/Keep");
		for (size_t k = 0; k < i % 7; k++)
			rpc_send(s[i]->call, "0123456789", 10);
	}
	SPIN(f, kept.opened == (int)ARRAY_SIZE(s));
	kept.call = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		rpc_cancel(s[i]->call);
	SPIN(f, kept.closed == (int)ARRAY_SIZE(s));
	CHECK_EQ(kept.half_closed, 0);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		SPIN(f, s[i]->closed);
		CHECK_EQ(s[i]->code, RPC_CANCELLED);
		seen_free(s[i]);
	}
}

static void test_cancel_before_anything(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");
	struct seen *u = seen_new();

	rpc_send(s->call, "x", 1);
	rpc_cancel(s->call);
	rpc_cancel(rpc_unary(f->ch, "/t.T/Echo", "x", 1, NO_DEADLINE, got_unary, u));
	CHECK(!s->closed && !u->closed);
	SPIN(f, s->closed && u->closed);
	CHECK_EQ(s->code, RPC_CANCELLED);
	CHECK_EQ(u->code, RPC_CANCELLED);
	seen_free(s);
	seen_free(u);
}

static void test_server_cancels(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");

	SPIN(f, kept.call);
	rpc_cancel(kept.call);
	SPIN(f, s->closed && kept.closed);
	CHECK_EQ(s->code, RPC_CANCELLED);
	CHECK_EQ(kept.code, RPC_CANCELLED);
	seen_free(s);
}

static void test_server_finishes_early(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");

	SPIN(f, kept.call);
	rpc_send(kept.call, "first", 5);
	rpc_finish(kept.call, RPC_ABORTED, "enough");
	rpc_finish(kept.call, RPC_OK, "not again");
	rpc_send(kept.call, "late", 4);
	SPIN(f, s->closed && kept.closed);
	CHECK_EQ(s->messages, 1);
	CHECK_EQ(s->code, RPC_ABORTED);
	CHECK_STR(s->text, "enough");
	CHECK_EQ(kept.code, RPC_OK);
	seen_free(s);
}

static void test_client_vanishes(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");

	for (int i = 0; i < 10; i++)
		rpc_send(s->call, "x", 1);
	SPIN(f, kept.messages == 10);
	rpc_channel_free(f->ch);
	f->ch = NULL;
	SPIN(f, s->closed && kept.closed);
	CHECK_EQ(kept.code, RPC_CANCELLED);
	CHECK_EQ(kept.half_closed, 0);
	seen_free(s);
}

static void test_no_listener(struct fixture *f)
{
	struct seen *s = seen_new();

	rpc_server_free(f->server);
	f->server = NULL;
	rpc_unary(f->ch, "/t.T/Echo", "x", 1, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_UNAVAILABLE);
	CHECK(s->text[0]);
	seen_free(s);
}

static void test_port_taken(struct fixture *f)
{
	struct rpc_server_opts opts = { .address = f->target };
	struct rpc_server *second;
	struct err e;

	CHECK_EQ(rpc_server_new(&second, f->rpc, &opts, fixture_methods, 1, NULL, &e), ERR_IO);
	CHECK(strstr(e.msg, f->target));
	CHECK(strstr(e.msg, "Address already in use"));
}

static void test_server_stops_with_open_calls(struct fixture *f)
{
	struct seen *s[15];

	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		s[i] = call_open(f, "/t.T/Keep");
	SPIN(f, kept.opened == (int)ARRAY_SIZE(s));
	kept.call = NULL;
	rpc_server_free(f->server);
	f->server = NULL;
	CHECK_EQ(kept.closed, ARRAY_SIZE(s));
	CHECK_EQ(kept.code, RPC_CANCELLED);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		SPIN(f, s[i]->closed);
		CHECK(s[i]->code == RPC_CANCELLED || s[i]->code == RPC_UNAVAILABLE);
		seen_free(s[i]);
	}
}

static void free_server(void *arg)
{
	struct fixture *f = arg;

	rpc_server_free(f->server);
	f->server = NULL;
	f->freed = true;
}

/* Waiting for the end inside a post must not need the posts that stand behind it. */
static void test_server_stops_inside_a_post(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");

	SPIN(f, kept.opened);
	rpc_send(s->call, "x", 1);
	loop_post(f->loop, free_server, f);
	SPIN(f, f->freed && s->closed);
	CHECK_EQ(kept.closed, 1);
	seen_free(s);
}

static void test_answer_survives_stop(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");
	char *big = xcalloc(1, 4 << 20);

	SPIN(f, kept.call);
	rpc_send(kept.call, big, 4 << 20);
	rpc_finish(kept.call, RPC_OK, "all of it");
	rpc_server_free(f->server);
	f->server = NULL;
	CHECK_EQ(kept.closed, 1);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_OK);
	CHECK_EQ(s->last.len, 4 << 20);
	seen_free(s);
	free(big);
}

int main(void)
{
	static void (*const tests[])(struct fixture * f) = {
		test_unknown_method,
		test_deadline,
		test_past_deadline,
		test_client_cancels,
		test_many_cancels,
		test_cancel_before_anything,
		test_server_cancels,
		test_server_finishes_early,
		test_client_vanishes,
		test_no_listener,
		test_port_taken,
		test_server_stops_with_open_calls,
		test_server_stops_inside_a_post,
		test_answer_survives_stop,
	};
	struct fixture f;

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		rpc_fixture_start(&f);
		tests[i](&f);
		rpc_fixture_stop(&f);
	}
	return 0;
}
