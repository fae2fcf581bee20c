/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the aggregator. */
#ifndef AGENT_LINK_DIAL_H
#define AGENT_LINK_DIAL_H

#include "base/err.h"

struct link_env;
struct rpc_channel;

/* The caller frees it with rpc_channel_free(). Channels with different values of `lane` never share a
 * connection. */
MUST_CHECK int dial_aggregator(struct rpc_channel **out, const struct link_env *env,
			       const char *lane, struct err *e);

/* What is probably wrong with the address, by the text of a call's end; NULL where that is not known. */
const char *dial_hint(const struct link_env *env, const char *text);

#endif
