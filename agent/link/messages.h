/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent tells the aggregator, made from what it knows. Loop thread. */
#ifndef AGENT_LINK_MESSAGES_H
#define AGENT_LINK_MESSAGES_H

#include "agent/capture/capture.h"
#include "agent/clock/model.h"
#include "agent/link/env.h"
#include "proto/limits.h"
#include "proto/tutti/v1/control.pb-c.h"

struct rpc_call;

/* Packs and sends; nothing happens on a NULL call. */
void message_send(struct rpc_call *call, const Tutti__V1__AgentMessage *m);

/* A model with what it points at: not to be moved. */
struct message_clock {
	Tutti__V1__ClockModel model;
	Tutti__V1__ClockStep steps[LIMIT_CLOCK_STEPS], *pointers[LIMIT_CLOCK_STEPS];
};

/* offset_ns is given at the model's instant, the bound by the caller. */
void message_clock(struct message_clock *out, const struct clock_model *m, int64_t bound_ns);

/* What the tracers can do now: an array of n pointers with what they point at; message_states_free(). */
Tutti__V1__TracerState **message_states(struct tracer *const *all, size_t *n);
void message_states_free(Tutti__V1__TracerState **states, size_t n);

/* Sends Hello, Status; `held` is what requests_held() gave. */
void message_hello(struct rpc_call *call, const struct link_env *env, uint64_t instance,
		   Tutti__V1__Held **held, size_t n_held);
void message_status(struct rpc_call *call, const struct link_env *env, Tutti__V1__Held **held,
		    size_t n_held);

/* Sends HostResult of a capture in READY or FAILED. `reason` and `detail` say why there is no file;
 * with a file they are NULL, and the first tracer that fell short gives them: one that is off counts
 * only if it was asked for by name. */
struct message_result {
	const struct capture *capture;
	bool has_file, asked_by_name;
	const char *reason, *detail;
};
void message_result(const struct message_result *r,
		    void (*send)(void *arg, const Tutti__V1__AgentMessage *m), void *arg);

#endif
