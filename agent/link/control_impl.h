/* SPDX-License-Identifier: Apache-2.0 */
/* Shared only by control.c (how links come, go and are replaced) and control_messages.c (what is said on one). */
#ifndef AGENT_LINK_CONTROL_IMPL_H
#define AGENT_LINK_CONTROL_IMPL_H

#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "net/address.h"
#include "proto/tutti/v1/control.pb-c.h"

struct rpc_call;
struct rpc_channel;

enum link_state { LINK_DOWN, LINK_DIALLING, LINK_UP };

struct control {
	struct link_env env; /* its `aggregator` is the one of `addresses` that is dialled now */
	struct addresses *addresses;
	char host[ADDRESS_HOST_BYTES]; /* of the aggregator: probes go there */
	uint64_t term; /* the highest that a Welcome has named; 0 = none has */
	uint64_t instance;
	struct requests *requests;
	struct questions *questions;
	struct step_reporter *step_reporter;
	struct enrol *enrol; /* NULL = certificates are in files, or there are none */

	enum link_state state;
	struct rpc_channel *channel;
	struct rpc_call *call;
	/* A second link, with a newer certificate, until its Welcome. What this host says goes behind its Hello, which is then
	 * true when the aggregator reads it; what the aggregator says comes over both. NULL = none */
	struct rpc_channel *fresh_channel;
	struct rpc_call *fresh_call;
	struct rpc_call *awaited; /* the call of which Welcome is the next message; NULL = none */
	struct rpc_call *
		dropped_call; /* its channel is freed, and its `closed` is still to come; NULL = none */
	struct loop_timer renew; /* when to try for a second link */
	struct loop_timer retry; /* when to dial; while a Welcome is awaited, when to give up */
	struct loop_timer status;
	int64_t backoff_ns;
	int64_t up_mono_ns, status_mono_ns, status_gap_ns;
	struct clock_model reported_clock; /* what the last Status on this link said */
	uint32_t reported_digest; /* a digest of the tracers, captures and jobs in it */
	bool leaving, stopping;
	struct loop_timer settle; /* while leaving */
	int64_t leave_by_mono_ns;
	loop_fn left;
	void *left_arg;
	char down_reason[400]; /* the last error of the link; "" before the first attempt failed */
};

/* ---- control_messages.c ---- */

/* Where messages go; NULL while the link is down. */
static inline struct rpc_call *control_call(const struct control *c)
{
	return c->fresh_call ? c->fresh_call : c->call;
}

/* On a call that may not be the link's yet. */
void control_send_hello(struct control *c, struct rpc_call *call);

/* Welcome has come: measures the clock, sends Status now and by c->status, and Leaving if this agent stops. */
void control_begin(struct control *c, const Tutti__V1__Welcome *m);

void control_send_leaving(struct control *c); /* if another agent follows */

/* A message after Welcome; takes parts of it. */
void control_take(struct control *c, Tutti__V1__AggregatorMessage *m);

#endif
