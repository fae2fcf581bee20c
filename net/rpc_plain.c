/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of net/rpc.h that need no gRPC, so that the simulation can link them too. */
#include "net/rpc.h"

#include <stdlib.h>

#include "base/mem.h"

const char *rpc_code_name(enum rpc_code code)
{
	static const char *const names[] = {
		"ok",
		"cancelled",
		"unknown",
		"invalid-argument",
		"deadline-exceeded",
		"not-found",
		"already-exists",
		"permission-denied",
		"resource-exhausted",
		"failed-precondition",
		"aborted",
		"out-of-range",
		"unimplemented",
		"internal",
		"unavailable",
		"data-loss",
		"unauthenticated",
	};

	return (size_t)code < ARRAY_SIZE(names) ? names[code] : "unknown";
}

/* ---- unary calls ---- */

struct unary {
	rpc_unary_fn done;
	void *arg;
	struct rpc_msg *reply;
	bool twice;
};

static bool on_reply(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct unary *u = rpc_arg(call);

	if (u->reply)
		u->twice = true;
	else
		u->reply = rpc_msg_keep(msg);
	return true;
}

static void on_unary_closed(struct rpc_call *call, const struct rpc_status *st)
{
	static const struct rpc_status none = { RPC_INTERNAL, "the server sent no reply" };
	static const struct rpc_status twice = { RPC_INTERNAL, "the server sent two replies" };
	struct unary *u = rpc_arg(call);

	if (st->code == RPC_OK && u->twice)
		st = &twice;
	else if (st->code == RPC_OK && !u->reply)
		st = &none;
	u->done(u->arg, st, st->code == RPC_OK ? u->reply : NULL);
	rpc_msg_free(u->reply);
	free(u);
}

static const struct rpc_events unary_events = { .message = on_reply, .closed = on_unary_closed };

struct rpc_call *rpc_unary(struct rpc_channel *ch, const char *path, const void *request,
			   size_t len, int64_t deadline_ns, rpc_unary_fn done, void *arg)
{
	struct unary *u = xcalloc(1, sizeof(*u));
	struct rpc_call *c;

	u->done = done;
	u->arg = arg;
	c = rpc_open(ch, path, deadline_ns, &unary_events, u);
	rpc_send(c, request, len);
	rpc_half_close(c);
	return c;
}
