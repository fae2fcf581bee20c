/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/dial.h"

#include "agent/agent.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"

/* Longer than the aggregator's own: its pings are answers enough, and a fleet's would cost it twice. */
#define KEEPALIVE_NS (90 * NS_PER_S)

static const char *or_null(const char *s)
{
	return s && *s ? s : NULL;
}

int dial_aggregator(struct rpc_channel **out, const struct agent *agent, const char *lane,
		    struct err *e)
{
	const struct agent_conf *conf = &agent->conf;
	const struct rpc_tls tls = {
		.cert_file = or_null(conf->cert),
		.key_file = or_null(conf->key),
		.ca_file = or_null(conf->ca),
		.server_name = or_null(conf->aggregator_name),
	};
	const struct rpc_channel_opts opts = {
		.target = conf->aggregator,
		.tls = tls.ca_file || tls.cert_file ? &tls : NULL,
		.lane = lane,
		.max_message_bytes = LIMIT_CONTROL_BYTES,
		.keepalive_ns = KEEPALIVE_NS,
	};

	return rpc_channel_new(out, agent->rpc, &opts, e);
}
