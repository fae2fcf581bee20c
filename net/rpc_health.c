/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1.Health: Check answers once, Watch until the caller disconnects. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/rpc_impl.h"
#include "proto/grpc/health.pb-c.h"
#include "proto/limits.h"
#include "proto/message.h"

#define REQUEST_MAX_BYTES 4096

typedef Grpc__Health__V1__HealthCheckRequest request;
typedef Grpc__Health__V1__HealthCheckResponse response;

/* One Watch call on a service of this server. */
struct rpc_watch {
	struct rpc_call *call;
	bool asked; /* further requests of the call are ignored */
	struct rpc_watch *next, **link;
};

static int status_of(const struct rpc_server *s)
{
	return s->serving ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
			  : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

static void send_status(struct rpc_call *call, int status)
{
	response r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	uint8_t bytes[16];

	r.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
	rpc_send(call, bytes, grpc__health__v1__health_check_response__pack(&r, bytes));
}

struct lookup {
	const char *name;
	bool found;
};

static bool matches_service(void *arg, const char *name, size_t len)
{
	struct lookup *l = arg;

	l->found = strlen(l->name) == len && !memcmp(l->name, name, len);
	return !l->found;
}

/* 1: the server has the service, 0: it has not, -1: the message is no request. The empty name is the whole
 * server. */
static int find_requested(const struct rpc_server *s, const struct rpc_msg *msg)
{
	struct lookup l = { 0 };
	const uint8_t *data;
	size_t len;
	ProtobufCMessage *m;
	request *q;

	data = rpc_msg_data(msg, &len);
	if (message_unpack(&m, &grpc__health__v1__health_check_request__descriptor,
			   REQUEST_MAX_BYTES, LIMIT_SMALL_FIELDS, data, len, NULL))
		return -1;
	q = (request *)m;
	l.name = q->service;
	if (q->service[0])
		rpc_server_services(s, matches_service, &l);
	else
		l.found = true;
	grpc__health__v1__health_check_request__free_unpacked(q, NULL);
	return l.found;
}

static bool on_check(struct rpc_call *call, const struct rpc_msg *msg)
{
	const struct rpc_server *s = rpc_arg(call);
	int known = find_requested(s, msg);

	if (known < 0) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, "not a HealthCheckRequest");
	} else if (!known) {
		rpc_finish(call, RPC_NOT_FOUND, "unknown service");
	} else {
		send_status(call, status_of(s));
		rpc_finish(call, RPC_OK, NULL);
	}
	return true;
}

static void on_check_half_closed(struct rpc_call *call)
{
	rpc_finish(call, RPC_INVALID_ARGUMENT, "no HealthCheckRequest");
}

/* A watch's arg is the server until its request came, then its rpc_watch, or NULL. */
static void on_watch_opened(struct rpc_call *call)
{
	struct rpc_watch *w = xcalloc(1, sizeof(*w));

	w->call = call;
	rpc_set_arg(call, w);
}

static bool on_watch(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct rpc_watch *w = rpc_arg(call);
	struct rpc_server *s = call->server;
	int known = find_requested(s, msg);
	bool again = w->asked;

	w->asked = true;
	if (known < 0 || again) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, "not one HealthCheckRequest");
	} else if (!known) {
		/* The protocol demands that the stream stays open: the service may appear later. */
		send_status(
			call,
			GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN);
	} else {
		send_status(call, status_of(s));
		w->next = s->watches;
		w->link = &s->watches;
		if (w->next)
			w->next->link = &w->next;
		s->watches = w;
	}
	return true;
}

static void on_watch_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct rpc_watch *w = rpc_arg(call);

	(void)st;
	if (w->link)
		*w->link = w->next;
	if (w->link && w->next)
		w->next->link = w->link;
	free(w);
}

void rpc_health_changed(struct rpc_server *s)
{
	for (struct rpc_watch *w = s->watches; w; w = w->next)
		send_status(w->call, status_of(s));
}

static const struct rpc_events check_events = {
	.message = on_check,
	.half_closed = on_check_half_closed,
};

static const struct rpc_events watch_events = {
	.opened = on_watch_opened,
	.message = on_watch,
	.closed = on_watch_closed,
};

const struct rpc_method rpc_health_methods[RPC_HEALTH_METHODS] = {
	{ .path = "/grpc.health.v1.Health/Check",
	  .events = &check_events,
	  .max_message_bytes = REQUEST_MAX_BYTES },
	{ .path = "/grpc.health.v1.Health/Watch",
	  .events = &watch_events,
	  .max_message_bytes = REQUEST_MAX_BYTES },
};
