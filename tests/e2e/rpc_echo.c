/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server for stock gRPC clients to be tried against: all four call shapes, health, reflection.
 * Prints its port; a line "serving 0" or "serving 1" on stdin sets its health; the end of stdin
 * ends it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/mem.h"
#include "net/rpc.h"

#define MESSAGE_MAX_BYTES (65 << 20)

static struct loop *loop;
static struct rpc_server *server;

static bool echo(struct rpc_call *call, const struct rpc_msg *msg)
{
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);

	rpc_send(call, data, len);
	return true;
}

static void finish(struct rpc_call *call)
{
	rpc_finish(call, RPC_OK, NULL);
}

static bool three_times(struct rpc_call *call, const struct rpc_msg *msg)
{
	for (int i = 0; i < 3; i++)
		echo(call, msg);
	rpc_finish(call, RPC_OK, NULL);
	return true;
}

static bool count(struct rpc_call *call, const struct rpc_msg *msg)
{
	rpc_set_arg(call, (void *)((uintptr_t)rpc_arg(call) + rpc_msg_len(msg)));
	return true;
}

static void say_count(struct rpc_call *call)
{
	char text[24];

	rpc_send(call, text,
		 (size_t)snprintf(text, sizeof(text), "%zu", (size_t)(uintptr_t)rpc_arg(call)));
	rpc_finish(call, RPC_OK, NULL);
}

static bool fail(struct rpc_call *call, const struct rpc_msg *msg)
{
	(void)msg;
	rpc_finish(call, RPC_FAILED_PRECONDITION, "kein Schnee \xe2\x98\x83 heute, 100%");
	return true;
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	(void)call;
	if (rpc_msg_len(msg)) {
		printf("message\n");
		fflush(stdout);
	}
	return true;
}

static void on_half_closed(struct rpc_call *call)
{
	(void)call;
	printf("half-closed\n");
	fflush(stdout);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	(void)call;
	printf("closed %s\n", rpc_code_name(st->code));
	fflush(stdout);
}

static const struct rpc_events on_echo = {
	.message = echo,
	.half_closed = finish,
};
static const struct rpc_events on_three = { .message = three_times };
static const struct rpc_events on_count = { .message = count, .half_closed = say_count };
static const struct rpc_events on_fail = { .message = fail };
static const struct rpc_events on_hang = { .message = on_message,
					   .half_closed = on_half_closed,
					   .closed = on_closed };

static const struct rpc_method methods[] = {
	{ .path = "/tensorflow.ProfilerService/Monitor", .events = &on_echo },
	{ .path = "/tutti.v1.Control/Connect", .events = &on_echo },
	{ .path = "/test.Test/Three", .events = &on_three },
	{ .path = "/test.Test/Count", .events = &on_count },
	{ .path = "/test.Test/Fail", .events = &on_fail },
	{ .path = "/test.Test/Hang", .events = &on_hang },
	{ .path = "/test.Test/Small", .events = &on_echo, .max_message_bytes = 1000 },
};

static void on_stdin(void *arg, uint32_t events)
{
	char line[64];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

	(void)arg;
	(void)events;
	if (n <= 0) {
		loop_stop(loop);
		return;
	}
	line[n] = 0;
	rpc_server_set_serving(server, !strstr(line, "serving 0"));
}

static int serve(const struct rpc_tls *tls, struct err *e)
{
	struct rpc_server_opts opts = {
		.address = "127.0.0.1:0",
		.tls = tls,
		.max_message_bytes = MESSAGE_MAX_BYTES,
	};
	struct loop_watch *watch = NULL;
	struct rpc *rpc = NULL;
	int port;
	int rc = loop_new(&loop, 1, e);

	if (!rc)
		rc = rpc_new(&rpc, loop, e);
	if (!rc)
		rc = rpc_server_new(&server, rpc, &opts, methods, ARRAY_SIZE(methods), &port, e);
	if (!rc)
		rc = loop_watch(loop, STDIN_FILENO, EPOLLIN, on_stdin, NULL, &watch, e);
	if (!rc) {
		printf("port %d\n", port);
		fflush(stdout);
		loop_run(loop);
	}
	loop_unwatch(watch);
	rpc_server_free(server);
	rpc_free(rpc);
	loop_free(loop);
	return rc;
}

int main(int argc, char **argv)
{
	struct rpc_tls tls = { 0 };
	struct err e;

	if (argc == 4)
		tls = (struct rpc_tls){ argv[1], argv[2], argv[3], NULL, NULL };
	if (serve(argc == 4 ? &tls : NULL, &e)) {
		fprintf(stderr, "rpc_echo: %s\n", e.msg);
		return 1;
	}
	return 0;
}
