/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of net/rpc.h share: a server and a channel on one loop, methods to call, and
 * records of what each side saw.
 *
 * /t.T/Echo  sends back each message; finishes when the caller does
 * /t.T/Ten   sends the first message back ten times
 * /t.T/Count sends one u64, the sum of the messages' lengths
 * /t.T/Error finishes with FAILED_PRECONDITION
 * /t.T/Small is Echo for messages of at most METHOD_MAX bytes
 * /t.T/Keep  does nothing by itself; see `kept`
 */
#ifndef TESTS_RPC_FIXTURE_H
#define TESTS_RPC_FIXTURE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/loop.h"
#include "net/rpc.h"
#include "tests/lib/run_until.h"

#define BOUND_NS    (60 * NS_PER_S) /* for what must happen; nothing waits for it to pass */
#define SERVER_MAX  (1 << 20)
#define CLIENT_MAX  (8 << 20)
#define METHOD_MAX  1000
#define NO_DEADLINE INT64_MAX

/* What the server saw of the calls to /t.T/Keep. */
struct kept {
	struct rpc_call *call; /* the latest; NULL once closed */
	int opened, messages, half_closed, closed;
	bool hold; /* hold back after each message */
	struct rpc_msg *msg; /* the first, if it was asked to be kept */
	bool keep_first;
	size_t bytes;
	enum rpc_code code;
};

extern struct kept kept;
extern int echoed; /* messages of all calls to /t.T/Echo and /t.T/Small */

/* What a client saw of one call. */
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
	struct rpc_server *server; /* a test may free it and set NULL; the same for ch */
	struct rpc_channel *ch;
	int port;
	char target[40];
	bool freed;
};

void rpc_fixture_start(struct fixture *f);
void rpc_fixture_stop(struct fixture *f);

extern const struct rpc_method fixture_methods[];

struct seen *seen_new(void);
void seen_free(struct seen *s);

/* The events of a streaming call whose arg is a struct seen, and the callback of a unary one. */
extern const struct rpc_events client_events;
void got_unary(void *arg, const struct rpc_status *st, const struct rpc_msg *msg);

/* A streaming call without a deadline. */
struct seen *call_open(struct fixture *f, const char *path);

#define SPIN(f, cond) RUN_UNTIL((f)->loop, cond)

#endif
