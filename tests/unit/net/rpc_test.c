/* SPDX-License-Identifier: Apache-2.0 */
/* The four shapes of net/rpc.h, C to C, both ends on one loop; lanes; health. */
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "net/rpc_impl.h"
#include "tests/lib/check.h"
#include "tests/unit/net/rpc_fixture.h"

/* ---- the four shapes ---- */

static void test_unary(struct fixture *f)
{
	struct seen *s = seen_new();

	rpc_unary(f->ch, "/t.T/Echo", "hello", 5, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_OK);
	CHECK_STR(buf_str(&s->last), "hello");
	rpc_unary(f->ch, "/t.T/Echo", NULL, 0, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed == 2);
	CHECK_EQ(s->code, RPC_OK);
	CHECK_EQ(s->last.len, 0);
	rpc_unary(f->ch, "/t.T/Error", NULL, 0, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed == 3);
	CHECK_EQ(s->code, RPC_FAILED_PRECONDITION);
	CHECK_STR(s->text, "kein Gl\xc3\xbc\x63k");
	seen_free(s);
}

static void test_unary_needs_one_reply(struct fixture *f)
{
	struct seen *s = seen_new();

	rpc_unary(f->ch, "/t.T/Ten", "x", 1, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_INTERNAL);
	seen_free(s);
}

static void test_server_stream(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Ten");

	rpc_send(s->call, "x", 1);
	rpc_half_close(s->call);
	SPIN(f, s->closed);
	CHECK_EQ(s->messages, 10);
	CHECK_EQ(s->half_closed, 1);
	CHECK_EQ(s->code, RPC_OK);
	CHECK_STR(s->text, "ten");
	seen_free(s);
}

static void test_client_stream(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Count");
	uint64_t count;

	for (int i = 0; i < 100; i++)
		rpc_send(s->call, "0123456789", 10);
	CHECK_EQ(rpc_queued_bytes(s->call), 1000);
	rpc_half_close(s->call);
	rpc_send(s->call, "ignored", 7);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_OK);
	CHECK_EQ(s->last.len, sizeof(count));
	memcpy(&count, s->last.data, sizeof(count));
	CHECK_EQ(count, 1000);
	seen_free(s);
}

static void test_bidi(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Echo");

	for (int i = 1; i <= 50; i++) {
		rpc_send(s->call, &i, sizeof(i));
		SPIN(f, s->messages == i && s->drained == i);
		CHECK(!memcmp(s->last.data, &i, sizeof(i)));
	}
	CHECK_STR(rpc_identity(s->call), "");
	CHECK(strstr(rpc_peer(s->call), "127.0.0.1"));
	CHECK_EQ(rpc_deadline_ns(s->call), INT64_MAX);
	CHECK(!s->closed && !s->half_closed);
	rpc_half_close(s->call);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_OK);
	seen_free(s);
}

/* Lanes do not share a connection: their peers have different ports. */
static void test_lanes(struct fixture *f)
{
	struct rpc_channel_opts opts = { .target = f->target, .lane = "bulk" };
	struct seen *a = call_open(f, "/t.T/Keep"), *b = seen_new();
	struct rpc_channel *bulk;
	char first[80];
	struct err e;

	SPIN(f, kept.opened == 1);
	snprintf(first, sizeof(first), "%s", rpc_peer(kept.call));
	CHECK_EQ(rpc_deadline_ns(kept.call), INT64_MAX);
	CHECK_OK(rpc_channel_new(&bulk, f->rpc, &opts, &e), e);
	b->call = rpc_open(bulk, "/t.T/Keep", NO_DEADLINE, &client_events, b);
	SPIN(f, kept.opened == 2);
	CHECK(strcmp(first, rpc_peer(kept.call)));
	kept.call = NULL;
	rpc_channel_free(bulk);
	rpc_cancel(a->call);
	SPIN(f, a->closed && b->closed && kept.closed == 2);
	seen_free(a);
	seen_free(b);
}

static void test_health(struct fixture *f)
{
	static const uint8_t known[] = { 10, 3, 't', '.', 'T' }, unknown[] = { 10, 1, 'x' };
	struct seen *s = seen_new();

	rpc_unary(f->ch, "/grpc.health.v1.Health/Check", known, 5, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed == 1);
	CHECK(s->last.len == 2 && s->last.data[1] == 1);
	rpc_server_set_serving(f->server, false);
	rpc_unary(f->ch, "/grpc.health.v1.Health/Check", NULL, 0, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed == 2);
	CHECK(s->last.len == 2 && s->last.data[1] == 2);
	rpc_unary(f->ch, "/grpc.health.v1.Health/Check", unknown, 3, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed == 3);
	CHECK_EQ(s->code, RPC_NOT_FOUND);
	rpc_unary(f->ch, "/grpc.health.v1.Health/Check", "\xff\xff", 2, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed == 4);
	CHECK_EQ(s->code, RPC_INVALID_ARGUMENT);
	seen_free(s);
}

static void test_health_watch(struct fixture *f)
{
	static const uint8_t known[] = { 10, 3, 't', '.', 'T' }, unknown[] = { 10, 1, 'x' };
	struct seen *a = call_open(f, "/grpc.health.v1.Health/Watch");
	struct seen *b = call_open(f, "/grpc.health.v1.Health/Watch");

	rpc_send(a->call, known, sizeof(known));
	rpc_half_close(a->call);
	rpc_send(b->call, unknown, sizeof(unknown));
	SPIN(f, a->messages == 1 && b->messages == 1);
	CHECK_EQ(a->last.data[1], 1);
	CHECK_EQ(b->last.data[1], 3);
	rpc_server_set_serving(f->server, false);
	SPIN(f, a->messages == 2);
	CHECK_EQ(a->last.data[1], 2);
	rpc_cancel(a->call);
	SPIN(f, a->closed);
	rpc_server_set_serving(f->server, true);
	rpc_send(b->call, unknown,
		 sizeof(unknown)); /* who asks on and on is not answered on and on */
	SPIN(f, b->closed);
	CHECK_EQ(b->code, RPC_INVALID_ARGUMENT);
	CHECK_EQ(b->messages, 1);
	seen_free(a);
	seen_free(b);
}

static void test_code_names(void)
{
	CHECK_STR(rpc_code_name(RPC_OK), "ok");
	CHECK_STR(rpc_code_name(RPC_UNAVAILABLE), "unavailable");
	CHECK_STR(rpc_code_name(RPC_UNAUTHENTICATED), "unauthenticated");
	CHECK_STR(rpc_code_name((enum rpc_code)99), "unknown");
}

/* With another Abseil, a host of the fleet costs 2 kB more: net/rpc_locks.c. */
static void test_lock_checks_are_off(void)
{
	CHECK(rpc_locks_stop_checks());
}

int main(void)
{
	static void (*const tests[])(struct fixture * f) = {
		test_unary,	    test_unary_needs_one_reply,
		test_server_stream, test_client_stream,
		test_bidi,	    test_lanes,
		test_health,	    test_health_watch,
	};
	struct fixture f;

	test_code_names();
	test_lock_checks_are_off();
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		rpc_fixture_start(&f);
		tests[i](&f);
		rpc_fixture_stop(&f);
	}
	return 0;
}
