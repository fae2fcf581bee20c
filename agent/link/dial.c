/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/dial.h"

#include <string.h>

#include "agent/link/env.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"

/* Longer than the aggregator's keepalive: its pings also detect a dead connection on this side. */
#define KEEPALIVE_NS (90 * NS_PER_S)
/* Where another aggregator may take over, a frozen one is noticed within twice this. 10,000 agents then send 1,000 pings
 * a second. */
#define KEEPALIVE_SEVERAL_NS (10 * NS_PER_S)

/* What gRPC core says where something else is at the address. It is "unavailable" then like a host that is down. */
const char *dial_hint(const struct link_env *env, const char *text)
{
	static const char http[] = "that port is for HTTP: name the one of the aggregator's "
				   "--grpc, 7401 unless it was changed";
	static const struct {
		const char *words;
		bool of_tls, of_plaintext; /* agents that may be told */
		const char *hint;
	} rows[] = {
		{ "http1.x server", true, true, http },
		{ "missing selected ALPN", true, false, http },
		{ "wrong version number", true, false,
		  "no TLS is spoken there, and this agent has --ca" },
		{ "Socket closed", false, true, "if TLS is spoken there, this agent needs --ca" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if ((env->tls ? rows[i].of_tls : rows[i].of_plaintext) &&
		    strstr(text, rows[i].words))
			return rows[i].hint;
	}
	return NULL;
}

int dial_aggregator(struct rpc_channel **out, const struct link_env *env, const char *lane,
		    struct err *e)
{
	const struct rpc_channel_opts opts = {
		.target = env->aggregator,
		.tls = env->tls,
		.lane = lane,
		.max_message_bytes = LIMIT_CONTROL_BYTES,
		.keepalive_ns = env->several ? KEEPALIVE_SEVERAL_NS : KEEPALIVE_NS,
	};

	return rpc_channel_new(out, env->rpc, &opts, e);
}
