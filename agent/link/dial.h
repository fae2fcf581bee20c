/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the aggregator, as the configuration wants them. */
#ifndef AGENT_LINK_DIAL_H
#define AGENT_LINK_DIAL_H

#include "base/err.h"

struct agent;
struct rpc_channel;

/* TLS if `ca` or `cert` is configured. Yours: rpc_channel_free(). */
MUST_CHECK int dial_aggregator(struct rpc_channel **out, const struct agent *agent,
			       const char *lane, struct err *e);

#endif
