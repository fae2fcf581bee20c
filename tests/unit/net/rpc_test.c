/* SPDX-License-Identifier: Apache-2.0 */
/* Every promise of net/rpc.h that needs no certificate, C to C, both ends on one loop. */
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/lib/check.h"

#define BOUND_NS    (20 * NS_PER_S) /* for what must happen; nothing waits for it to pass */
#define SERVER_MAX  (1 << 20)
#define METHOD_MAX  1000
#define NO_DEADLINE INT64_MAX

/* What the server saw of the calls to /t.T/Keep, which answers nothing by itself. */
struct kept {
	struct rpc_call *call;
	int opened, messages, half_closed, closed;
	bool hold; /* hold back after each message */
	struct rpc_msg *msg; /* the first, if it was asked to be kept */
	bool keep_first;
	size_t bytes;
	enum rpc_code code;
};

static struct kept kept;

/* What a client saw. */
struct seen {
	struct rpc_call *call;
	int messages, half_closed, drained, closed;
	int hold_after; /* -1: never */
	struct buf last;
	enum rpc_code code;
	char text[200];
};

struct fixture {
	struct loop *loop;
	struct rpc *rpc;
	struct rpc_server *server;
	struct rpc_channel *ch;
	int port;
	char target[40];
	bool freed;
};

/* ---- server side ---- */

static bool echo(struct rpc_call *call, const struct rpc_msg *msg)
{
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);

	rpc_send(call, data, len);
	return true;
}

static void finish_ok(struct rpc_call *call)
{
	rpc_finish(call, RPC_OK, NULL);
}

static bool ten_times(struct rpc_call *call, const struct rpc_msg *msg)
{
	for (int i = 0; i < 10; i++)
		echo(call, msg);
	rpc_finish(call, RPC_OK, "ten");
	return true;
}

static bool count_bytes(struct rpc_call *call, const struct rpc_msg *msg)
{
	rpc_set_arg(call, (void *)((uintptr_t)rpc_arg(call) + rpc_msg_len(msg)));
	return true;
}

static void say_count(struct rpc_call *call)
{
	uint64_t count = (uintptr_t)rpc_arg(call);

	rpc_send(call, &count, sizeof(count));
	rpc_finish(call, RPC_OK, NULL);
}

static bool say_error(struct rpc_call *call, const struct rpc_msg *msg)
{
	(void)msg;
	rpc_finish(call, RPC_FAILED_PRECONDITION, "kein Gl\xc3\xbc\x63k");
	return true;
}

static void keep_opened(struct rpc_call *call)
{
	kept.opened++;
	kept.call = call;
}

static bool keep_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	(void)call;
	kept.messages++;
	kept.bytes += rpc_msg_len(msg);
	if (kept.keep_first && !kept.msg)
		kept.msg = rpc_msg_keep(msg);
	return !kept.hold;
}

static void keep_half_closed(struct rpc_call *call)
{
	(void)call;
	kept.half_closed++;
}

static void keep_closed(struct rpc_call *call, const struct rpc_status *st)
{
	CHECK(!kept.call || kept.call == call);
	kept.call = NULL;
	kept.closed++;
	kept.code = st->code;
}

static const struct rpc_events on_echo = { .message = echo, .half_closed = finish_ok };
static const struct rpc_events on_ten = { .message = ten_times };
static const struct rpc_events on_count = { .message = count_bytes, .half_closed = say_count };
static const struct rpc_events on_error = { .message = say_error };
static const struct rpc_events on_keep = {
	.opened = keep_opened,
	.message = keep_message,
	.half_closed = keep_half_closed,
	.closed = keep_closed,
};

static const struct rpc_method methods[] = {
	{ .path = "/t.T/Echo", .events = &on_echo },
	{ .path = "/t.T/Ten", .events = &on_ten },
	{ .path = "/t.T/Count", .events = &on_count },
	{ .path = "/t.T/Error", .events = &on_error },
	{ .path = "/t.T/Keep", .events = &on_keep },
	{ .path = "/t.T/Small", .events = &on_echo, .max_message_bytes = METHOD_MAX },
};

/* ---- client side ---- */

static bool got_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct seen *s = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);

	buf_reset(&s->last);
	buf_add(&s->last, data, len);
	CHECK_EQ(len, rpc_msg_len(msg));
	return ++s->messages != s->hold_after;
}

static void got_half_closed(struct rpc_call *call)
{
	((struct seen *)rpc_arg(call))->half_closed++;
}

static void got_drained(struct rpc_call *call)
{
	struct seen *s = rpc_arg(call);

	CHECK_EQ(rpc_queued_bytes(call), 0);
	s->drained++;
}

static void got_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct seen *s = rpc_arg(call);

	rpc_send(call, "late", 4);
	rpc_read_on(call);
	rpc_cancel(call);
	s->closed++;
	s->code = st->code;
	snprintf(s->text, sizeof(s->text), "%s", st->text);
}

static const struct rpc_events client_events = {
	.message = got_message,
	.half_closed = got_half_closed,
	.drained = got_drained,
	.closed = got_closed,
};

static void got_unary(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct seen *s = arg;
	const uint8_t *data;
	size_t len;

	s->closed++;
	s->code = st->code;
	snprintf(s->text, sizeof(s->text), "%s", st->text);
	CHECK_EQ(!msg, st->code != RPC_OK);
	if (!msg)
		return;
	data = rpc_msg_data(msg, &len);
	buf_reset(&s->last);
	buf_add(&s->last, data, len);
}

/* ---- fixture ---- */

static void start_server(struct fixture *f)
{
	struct rpc_server_opts opts = { .address = "127.0.0.1:0", .max_message_bytes = SERVER_MAX };
	struct err e;

	CHECK_OK(rpc_server_new(&f->server, f->rpc, &opts, methods, ARRAY_SIZE(methods), &f->port,
				&e),
		 e);
	snprintf(f->target, sizeof(f->target), "127.0.0.1:%d", f->port);
}

static void start(struct fixture *f)
{
	struct rpc_channel_opts opts = { .target = f->target, .max_message_bytes = 8 << 20 };
	struct err e;

	memset(&kept, 0, sizeof(kept));
	memset(f, 0, sizeof(*f));
	CHECK_OK(loop_new(&f->loop, 1, &e), e);
	CHECK_OK(rpc_new(&f->rpc, f->loop, &e), e);
	start_server(f);
	opts.target = f->target;
	CHECK_OK(rpc_channel_new(&f->ch, f->rpc, &opts, &e), e);
}

static void stop(struct fixture *f)
{
	rpc_channel_free(f->ch);
	rpc_server_free(f->server);
	rpc_free(f->rpc);
	loop_free(f->loop);
}

#define SPIN(f, cond) \
	do { \
		int64_t spin_end = now_mono_ns() + BOUND_NS; \
		while (!(cond) && now_mono_ns() < spin_end) \
			loop_turn((f)->loop, 100); \
		CHECK(cond); \
	} while (0)

static struct seen *seen_new(void)
{
	struct seen *s = xcalloc(1, sizeof(*s));

	s->hold_after = -1;
	return s;
}

static void seen_free(struct seen *s)
{
	buf_release(&s->last);
	free(s);
}

static struct seen *call_open(struct fixture *f, const char *path)
{
	struct seen *s = seen_new();

	s->call = rpc_open(f->ch, path, NO_DEADLINE, &client_events, s);
	return s;
}

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

/* ---- ends ---- */

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

static void test_deadline(struct fixture *f)
{
	struct seen *s = seen_new();
	int64_t at_ns = now_mono_ns() + 100 * NS_PER_MS;

	s->call = rpc_open(f->ch, "/t.T/Keep", at_ns, &client_events, s);
	SPIN(f, kept.opened);
	/* The wire has milliseconds, rounded up, and carries what is left, not an instant. */
	CHECK(!kept.call || rpc_deadline_ns(kept.call) > at_ns - NS_PER_S);
	CHECK(!kept.call || rpc_deadline_ns(kept.call) < at_ns + 10 * NS_PER_S);
	SPIN(f, s->closed && kept.closed);
	CHECK(now_mono_ns() >= at_ns);
	CHECK_EQ(s->code, RPC_DEADLINE_EXCEEDED);
	CHECK_EQ(kept.code, RPC_CANCELLED);
	CHECK_EQ(kept.half_closed, 0);
	seen_free(s);
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
	struct seen *s[200];

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

static void test_nobody_there(struct fixture *f)
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

	CHECK_EQ(rpc_server_new(&second, f->rpc, &opts, methods, 1, NULL, &e), ERR_IO);
	CHECK(strstr(e.msg, f->target));
	CHECK(strstr(e.msg, "Address already in use"));
}

static void test_server_stops_with_open_calls(struct fixture *f)
{
	struct seen *s[20];

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

/* ---- sizes and flow ---- */

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
	char *big = xcalloc(1, (8 << 20) + 1);

	SPIN(f, kept.call);
	rpc_send(kept.call, big, (8 << 20) + 1);
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
	rpc_half_close(b->call);
	SPIN(f, a->messages == 1 && b->messages == 1);
	CHECK_EQ(a->last.data[1], 1);
	CHECK_EQ(b->last.data[1], 3);
	rpc_server_set_serving(f->server, false);
	SPIN(f, a->messages == 2);
	CHECK_EQ(a->last.data[1], 2);
	rpc_cancel(a->call);
	SPIN(f, a->closed);
	rpc_server_set_serving(f->server, true);
	rpc_cancel(b->call);
	SPIN(f, b->closed);
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

int main(void)
{
	static void (*const tests[])(struct fixture * f) = {
		test_unary,
		test_unary_needs_one_reply,
		test_server_stream,
		test_client_stream,
		test_bidi,
		test_unknown_method,
		test_deadline,
		test_past_deadline,
		test_client_cancels,
		test_many_cancels,
		test_cancel_before_anything,
		test_server_cancels,
		test_server_finishes_early,
		test_client_vanishes,
		test_nobody_there,
		test_port_taken,
		test_server_stops_with_open_calls,
		test_server_stops_inside_a_post,
		test_answer_survives_stop,
		test_too_big,
		test_reply_too_big,
		test_beyond_32_bits,
		test_parts,
		test_kept_message,
		test_backpressure,
		test_held_client,
		test_held_and_lost,
		test_many_calls,
		test_lanes,
		test_health,
		test_health_watch,
	};
	struct fixture f;

	test_code_names();
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		start(&f);
		tests[i](&f);
		stop(&f);
	}
	return 0;
}
