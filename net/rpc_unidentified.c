/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts connections that carry no call: garbage, a port scan, a client of another protocol.
 *
 * Core closes a connection that is not HTTP/2 without logging it. One of its tracers reports each accepted
 * connection, and every call names its peer: the number of accepted connections less the number of peers that
 * called is the number of unidentified ones. Core reports neither their addresses nor their server: with two
 * servers in one process, each counts the connections of both.
 */
#include <grpc/support/log.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_impl.h"

#define CHECK_EVERY_NS \
	(3 * NS_PER_S) /* a connection that is older should have had its first call */

static atomic_uint_fast64_t accepted;

void rpc_unidentified_trace(void)
{
	grpc_tracer_set_enabled("connectivity_state", 1);
	if (!gpr_should_log(GPR_LOG_SEVERITY_INFO))
		gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
}

void rpc_unidentified_note(const char *message)
{
	if (strstr(message, "server_transport") && strstr(message, "IDLE -> READY"))
		atomic_fetch_add(&accepted, 1);
}

static uint32_t fnv1a(const char *text)
{
	uint32_t h = 2166136261u;

	while (*text)
		h = (h ^ (uint8_t)*text++) * 16777619u;
	return h;
}

void rpc_unidentified_note_call(struct rpc_unidentified *s, const char *peer)
{
	uint32_t h = fnv1a(peer);
	uint32_t *slot = &s->callers[h % ARRAY_SIZE(s->callers)];

	/* Two callers with the same slot replace each other, and are then counted twice. That can hide an
	 * unidentified connection, but cannot invent one. */
	if (*slot == h)
		return;
	*slot = h;
	s->known++;
}

static void check(void *arg)
{
	struct rpc_unidentified *s = arg;

	if (s->accepted > s->known) {
		log_warn("NET-UNIDENTIFIED",
			 "port=%d connections=%llu reason=\"carried no gRPC call: "
			 "garbage, a port scan or a client of another protocol\"",
			 s->port, (unsigned long long)(s->accepted - s->known));
		s->known = s->accepted;
	}
	s->accepted = atomic_load(&accepted);
	if (s->known > s->accepted)
		s->known = s->accepted; /* callers that were counted twice (see above) */
	loop_timer_in(s->loop, &s->timer, CHECK_EVERY_NS, check, s);
}

void rpc_unidentified_start(struct rpc_unidentified *s, struct loop *loop, int port)
{
	s->loop = loop;
	s->port = port;
	s->known = s->accepted = atomic_load(&accepted);
	loop_timer_in(loop, &s->timer, CHECK_EVERY_NS, check, s);
}

void rpc_unidentified_stop(struct rpc_unidentified *s)
{
	loop_timer_cancel(s->loop, &s->timer);
}
