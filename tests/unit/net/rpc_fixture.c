/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/net/rpc_fixture.h"

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

/* ---- server side ---- */

struct kept kept;

int echoed;

static bool echo(struct rpc_call *call, const struct rpc_msg *msg)
{
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);

	rpc_send(call, data, len);
	echoed++;
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

const struct rpc_method fixture_methods[] = {
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

const struct rpc_events client_events = {
	.message = got_message,
	.half_closed = got_half_closed,
	.drained = got_drained,
	.closed = got_closed,
};

void got_unary(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
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

	CHECK_OK(rpc_server_new(&f->server, f->rpc, &opts, fixture_methods,
				ARRAY_SIZE(fixture_methods), &f->port, &e),
		 e);
	snprintf(f->target, sizeof(f->target), "127.0.0.1:%d", f->port);
}

void rpc_fixture_start(struct fixture *f)
{
	struct rpc_channel_opts opts = { .target = f->target, .max_message_bytes = CLIENT_MAX };
	struct err e;

	memset(&kept, 0, sizeof(kept));
	memset(f, 0, sizeof(*f));
	CHECK_OK(loop_new(&f->loop, 1, &e), e);
	CHECK_OK(rpc_new(&f->rpc, f->loop, &e), e);
	start_server(f);
	opts.target = f->target;
	CHECK_OK(rpc_channel_new(&f->ch, f->rpc, &opts, &e), e);
}

void rpc_fixture_stop(struct fixture *f)
{
	rpc_channel_free(f->ch);
	rpc_server_free(f->server);
	rpc_free(f->rpc);
	loop_free(f->loop);
}

struct seen *seen_new(void)
{
	struct seen *s = xcalloc(1, sizeof(*s));

	s->hold_after = -1;
	return s;
}

void seen_free(struct seen *s)
{
	buf_release(&s->last);
	free(s);
}

struct seen *call_open(struct fixture *f, const char *path)
{
	struct seen *s = seen_new();

	s->call = rpc_open(f->ch, path, NO_DEADLINE, &client_events, s);
	return s;
}
