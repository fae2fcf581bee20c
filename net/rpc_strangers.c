/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that carry no call: garbage, a port scan, a client of another protocol.
 *
 * Core closes what is no HTTP/2 without a word. What it does tell, by one of its tracers, is that a
 * connection was accepted; and every call names its peer. The accepted ones less the peers that
 * called are the strangers; who they were core keeps to itself. It does not say whose connection it
 * accepted either: with two servers in a process each takes the other's for its own.
 */
#include <grpc/support/log.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_impl.h"

#define LOOK_NS (3 * NS_PER_S) /* a connection that is older should have had its first call */

static atomic_uint_fast64_t accepted;

void rpc_strangers_trace(void)
{
	grpc_tracer_set_enabled("connectivity_state", 1);
	if (!gpr_should_log(GPR_LOG_SEVERITY_INFO))
		gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
}

void rpc_strangers_hear(const char *message)
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

void rpc_strangers_call(struct rpc_strangers *s, const char *peer)
{
	uint32_t h = fnv1a(peer);
	uint32_t *slot = &s->callers[h % ARRAY_SIZE(s->callers)];

	/* Two callers in one slot count anew by turns: that hides a stranger, it makes none. */
	if (*slot == h)
		return;
	*slot = h;
	s->known++;
}

static void look(void *arg)
{
	struct rpc_strangers *s = arg;

	if (s->seen > s->known) {
		log_warn("NET-STRANGER",
			 "port=%d connections=%llu reason=\"carried no gRPC call: "
			 "garbage, a port scan or a client of another protocol\"",
			 s->port, (unsigned long long)(s->seen - s->known));
		s->known = s->seen;
	}
	s->seen = atomic_load(&accepted);
	if (s->known > s->seen)
		s->known = s->seen; /* some were counted twice: not for longer than this look */
	loop_timer_in(s->loop, &s->timer, LOOK_NS, look, s);
}

void rpc_strangers_start(struct rpc_strangers *s, struct loop *loop, int port)
{
	s->loop = loop;
	s->port = port;
	s->known = s->seen = atomic_load(&accepted);
	loop_timer_in(loop, &s->timer, LOOK_NS, look, s);
}

void rpc_strangers_stop(struct rpc_strangers *s)
{
	loop_timer_cancel(s->loop, &s->timer);
}
