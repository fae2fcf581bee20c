/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and flow in net/rpc.h: limits, parts that are not copied, kept messages, holding back. */
#include <stdatomic.h>

#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/lib/check.h"
#include "tests/unit/net/rpc_fixture.h"

static void unary_of(struct fixture *f, const char *path, size_t len, enum rpc_code want)
{
	struct seen *s = seen_new();
	char *data = xcalloc(1, len);

	rpc_unary(f->ch, path, data, len, NO_DEADLINE, got_unary, s);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, want);
	if (want == RPC_OK)
		CHECK_EQ(s->last.len, len);
	free(data);
	seen_free(s);
}

static void test_too_big(struct fixture *f)
{
	unary_of(f, "/t.T/Echo", SERVER_MAX, RPC_OK);
	unary_of(f, "/t.T/Echo", SERVER_MAX + 1, RPC_RESOURCE_EXHAUSTED);
	unary_of(f, "/t.T/Small", METHOD_MAX, RPC_OK);
	unary_of(f, "/t.T/Small", METHOD_MAX + 1, RPC_RESOURCE_EXHAUSTED);
}

static void test_reply_too_big(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");
	char *big = xcalloc(1, CLIENT_MAX + 1);

	SPIN(f, kept.call);
	rpc_send(kept.call, big, CLIENT_MAX + 1);
	rpc_finish(kept.call, RPC_OK, NULL);
	SPIN(f, s->closed && kept.closed);
	CHECK_EQ(s->code, RPC_RESOURCE_EXHAUSTED);
	CHECK_EQ(s->messages, 0);
	seen_free(s);
	free(big);
}

static void count_release(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void test_beyond_32_bits(struct fixture *f)
{
	static const char byte;
	struct rpc_part parts[3];
	struct seen *s = call_open(f, "/t.T/Count");
	atomic_int released = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i] = (struct rpc_part){ &byte, 1500000000, count_release, &released };
	rpc_send_parts(s->call, parts, ARRAY_SIZE(parts));
	CHECK_EQ(atomic_load(&released), 3);
	SPIN(f, s->closed);
	CHECK_EQ(s->code, RPC_RESOURCE_EXHAUSTED);
	seen_free(s);
}

static void test_parts(struct fixture *f)
{
	static char text[300000];
	struct seen *s = call_open(f, "/t.T/Echo");
	atomic_int released = 0;
	struct rpc_part parts[] = {
		{ "head", 4, NULL, NULL },
		{ text, sizeof(text), count_release, &released },
		{ "", 0, count_release, &released },
		{ "tail", 4, count_release, &released },
	};

	memset(text, 'x', sizeof(text));
	rpc_send_parts(s->call, parts, ARRAY_SIZE(parts));
	CHECK_EQ(rpc_queued_bytes(s->call), sizeof(text) + 8);
	SPIN(f, s->messages == 1);
	CHECK_EQ(s->last.len, sizeof(text) + 8);
	CHECK(!memcmp(s->last.data, "headxxx", 7));
	CHECK(!memcmp(s->last.data + s->last.len - 7, "xxxtail", 7));
	rpc_half_close(s->call);
	SPIN(f, s->closed);
	SPIN(f, atomic_load(&released) == 3);
	s->call = rpc_open(f->ch, "/t.T/Keep", NO_DEADLINE, &client_events, s);
	rpc_send_parts(s->call, parts, ARRAY_SIZE(parts));
	rpc_send_parts(s->call, parts, ARRAY_SIZE(parts));
	rpc_cancel(s->call);
	rpc_send_parts(s->call, parts, ARRAY_SIZE(parts));
	SPIN(f, s->closed == 2);
	SPIN(f, atomic_load(&released) == 12);
	seen_free(s);
}

/* A peer that opens a stream and never reads it. The server's messages to it end the call. */
static void test_unread_stream(struct fixture *f)
{
	static char block[64 << 10];
	struct seen *s = call_open(f, "/t.T/Keep");
	size_t most = 0;

	s->hold_after = 1;
	SPIN(f, kept.call);
	for (int i = 0; i < 100000 && kept.call; i++) {
		rpc_send(kept.call, block, sizeof(block));
		most = rpc_queued_bytes(kept.call) > most ? rpc_queued_bytes(kept.call) : most;
		loop_turn(f->loop, 0);
	}
	SPIN(f, kept.closed);
	CHECK(most > 4 << 20);
	CHECK(most <= 8 << 20);
	if (!s->closed)
		rpc_cancel(s->call);
	SPIN(f, s->closed);
	seen_free(s);
}

/* Many streams, each below the ceiling of a call: the longest queues end, other calls do not. */
static void test_unread_streams(struct fixture *f)
{
	enum { STREAMS = 14, MESSAGES = 120 };
	static char block[64 << 10];
	struct seen *s[STREAMS], *good = call_open(f, "/t.T/Echo");
	int ended = 0;

	for (int i = 0; i < STREAMS; i++) {
		s[i] = call_open(f, "/t.T/Echo");
		s[i]->hold_after = 1;
		for (int n = 0; n < MESSAGES; n++)
			rpc_send(s[i]->call, block, sizeof(block));
		SPIN(f, s[i]->closed || !rpc_queued_bytes(s[i]->call));
	}
	rpc_send(good->call, "x", 1);
	SPIN(f, good->messages == 1);
	for (int i = 0; i < STREAMS; i++) {
		if (!s[i]->closed)
			rpc_read_on(s[i]->call);
	}
	for (int i = 0; i < STREAMS; i++) {
		SPIN(f, s[i]->closed || s[i]->messages == MESSAGES);
		ended += s[i]->closed;
	}
	CHECK(ended && ended < STREAMS);
	for (int i = 0; i < STREAMS; i++) {
		if (!s[i]->closed)
			rpc_cancel(s[i]->call);
		SPIN(f, s[i]->closed);
		seen_free(s[i]);
	}
	CHECK(!good->closed);
	rpc_cancel(good->call);
	SPIN(f, good->closed);
	seen_free(good);
}

/* A first message was not left unread yet: it ends no call, its own neither, however large it is. What comes after
 * it does. */
static void test_large_first_message(struct fixture *f)
{
	enum { LARGE = 40 << 20, MESSAGES = 60 };
	static char block[64 << 10];
	char *large = xcalloc(1, LARGE);
	struct seen *other = call_open(f, "/t.T/Echo"), *s;

	echoed = 0;
	other->hold_after = 1;
	for (int n = 0; n < MESSAGES; n++)
		rpc_send(other->call, block, sizeof(block));
	SPIN(f, echoed == MESSAGES);
	s = call_open(f, "/t.T/Keep");
	s->hold_after = 1;
	SPIN(f, kept.call);
	rpc_send(kept.call, "x", 1);
	/* It reads no more. */
	SPIN(f, s->messages == 1 && !rpc_queued_bytes(kept.call));
	rpc_send(kept.call, large, LARGE);
	for (int i = 0; i < 20; i++)
		loop_turn(f->loop, 1);
	CHECK(kept.call && !kept.closed && !other->closed);
	rpc_send(kept.call, block, sizeof(block));
	SPIN(f, kept.closed);
	CHECK(!other->closed);
	rpc_read_on(other->call);
	SPIN(f, other->messages == MESSAGES);
	rpc_cancel(other->call);
	if (!s->closed)
		rpc_cancel(s->call);
	SPIN(f, other->closed && s->closed);
	seen_free(other);
	seen_free(s);
	free(large);
}

static void add_piece(void *arg, const uint8_t *data, size_t len)
{
	buf_add(arg, data, len);
}

struct digest {
	struct rpc_msg *msg;
	struct buf pieces;
	bool same, done;
};

static void digest_run(void *arg)
{
	struct digest *d = arg;
	const uint8_t *data;
	size_t len;

	rpc_msg_pieces(d->msg, add_piece, &d->pieces);
	data = rpc_msg_data(d->msg, &len);
	d->same = len == d->pieces.len && !memcmp(data, d->pieces.data, len);
	rpc_msg_free(d->msg);
}

static void digest_done(void *arg)
{
	((struct digest *)arg)->done = true;
}

/* A kept message outlives its call and may be read and freed by a worker. */
static void test_kept_message(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");
	struct digest d = { 0 };
	char *data = xcalloc(1, 900000);

	memset(data, 'k', 900000);
	kept.keep_first = true;
	rpc_send(s->call, data, 900000);
	rpc_send(s->call, "more", 4);
	SPIN(f, kept.messages == 2);
	rpc_cancel(s->call);
	SPIN(f, s->closed && kept.closed);
	d.msg = kept.msg;
	loop_work(f->loop, digest_run, digest_done, &d);
	SPIN(f, d.done);
	CHECK(d.same);
	CHECK_EQ(d.pieces.len, 900000);
	CHECK(!memcmp(d.pieces.data, data, 900000));
	buf_release(&d.pieces);
	seen_free(s);
	free(data);
}

/* A sender that is not read from is held back: what it gave stays in its queue. */
static void test_backpressure(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");
	size_t chunk = 64 << 10, total = 256 * chunk;
	char *data = xcalloc(1, chunk);

	kept.hold = true;
	for (size_t i = 0; i < 256; i++)
		rpc_send(s->call, data, chunk);
	rpc_half_close(s->call);
	SPIN(f, kept.messages == 1);
	for (int i = 0; i < 50; i++)
		loop_turn(f->loop, 0);
	CHECK_EQ(kept.messages, 1);
	CHECK(rpc_queued_bytes(s->call) > total / 4);
	CHECK_EQ(s->drained, 0);
	while (kept.messages < 256) {
		int before = kept.messages;

		rpc_read_on(kept.call);
		SPIN(f, kept.messages == before + 1);
	}
	rpc_read_on(kept.call);
	SPIN(f, kept.half_closed);
	CHECK_EQ(kept.bytes, total);
	CHECK_EQ(s->drained, 1);
	rpc_finish(kept.call, RPC_OK, NULL);
	SPIN(f, s->closed);
	seen_free(s);
	free(data);
}

/* Holding back must not lose what came before an orderly end. */
static void test_held_client(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Ten");

	s->hold_after = 3;
	rpc_send(s->call, "x", 1);
	rpc_half_close(s->call);
	SPIN(f, s->messages == 3);
	for (int i = 0; i < 20; i++)
		loop_turn(f->loop, 1);
	CHECK_EQ(s->messages, 3);
	CHECK_EQ(s->closed, 0);
	rpc_read_on(s->call);
	SPIN(f, s->closed);
	CHECK_EQ(s->messages, 10);
	CHECK_EQ(s->code, RPC_OK);
	seen_free(s);
}

/* A call that is held back still learns that the other side is gone. */
static void test_held_and_lost(struct fixture *f)
{
	struct seen *s = call_open(f, "/t.T/Keep");

	kept.hold = true;
	rpc_send(s->call, "x", 1);
	rpc_send(s->call, "y", 1);
	SPIN(f, kept.messages == 1);
	rpc_cancel(s->call);
	SPIN(f, kept.closed && s->closed);
	CHECK_EQ(kept.code, RPC_CANCELLED);
	seen_free(s);
}

static void test_many_calls(struct fixture *f)
{
	enum { N = 1000 };
	struct seen **s = xcalloc(N, sizeof(struct seen *));
	int done = 0;

	for (int i = 0; i < N; i++) {
		s[i] = seen_new();
		rpc_unary(f->ch, "/t.T/Echo", &i, sizeof(i), NO_DEADLINE, got_unary, s[i]);
	}
	while (done < N) {
		SPIN(f, s[done]->closed);
		CHECK_EQ(s[done]->code, RPC_OK);
		CHECK(!memcmp(s[done]->last.data, &done, sizeof(done)));
		seen_free(s[done++]);
	}
	free(s);
}

/* As many calls as a fleet has, whose results core's thread lets come before it takes them: none is lost or doubled. */
static void test_crowd(struct fixture *f)
{
	enum { LANES = 3, CALLS = 200, ROUNDS = 4 }; /* a connection has at most 256 streams */
	struct rpc_channel *lanes[LANES];
	struct seen *s[LANES * CALLS];
	struct err e;

	echoed = 0;
	for (size_t i = 0; i < LANES; i++) {
		const char *const names[LANES] = { "a", "b", "c" };
		struct rpc_channel_opts opts = { .target = f->target, .lane = names[i] };

		CHECK_OK(rpc_channel_new(&lanes[i], f->rpc, &opts, &e), e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		s[i] = seen_new();
		s[i]->call = rpc_open(lanes[i % LANES], "/t.T/Echo", NO_DEADLINE, &client_events,
				      s[i]);
	}
	for (int round = 1; round <= ROUNDS; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(s); i++)
			rpc_send(s[i]->call, &i, sizeof(i));
		for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
			SPIN(f, s[i]->messages >= round);
			CHECK_EQ(s[i]->messages, round);
			CHECK(!memcmp(s[i]->last.data, &i, sizeof(i)));
		}
	}
	CHECK_EQ(echoed, ROUNDS * (int)ARRAY_SIZE(s));
	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		rpc_half_close(s[i]->call);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		SPIN(f, s[i]->closed);
		CHECK_EQ(s[i]->code, RPC_OK);
		seen_free(s[i]);
	}
	for (size_t i = 0; i < LANES; i++)
		rpc_channel_free(lanes[i]);
}

int main(void)
{
	static void (*const tests[])(struct fixture * f) = {
		test_too_big,	    test_reply_too_big,	 test_beyond_32_bits,
		test_parts,	    test_kept_message,	 test_backpressure,
		test_held_client,   test_held_and_lost,	 test_many_calls,
		test_unread_stream, test_unread_streams, test_large_first_message,
		test_crowd,
	};
	struct fixture f;

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		rpc_fixture_start(&f);
		tests[i](&f);
		rpc_fixture_stop(&f);
	}
	return 0;
}
