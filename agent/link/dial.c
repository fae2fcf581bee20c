/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/dial.h"

#include "agent/link/env.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"

/* Longer than the aggregator's keepalive: its pings also detect a dead connection on this side. */
#define KEEPALIVE_NS (90 * NS_PER_S)
/* Where another aggregator may take over, a frozen one is noticed within twice this. 10,000 agents then send 1,000 pings
 * a second. */
#define KEEPALIVE_SEVERAL_NS (10 * NS_PER_S)

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
