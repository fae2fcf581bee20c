/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that this agent sends to the aggregator. Loop thread. */
#ifndef AGENT_LINK_MESSAGES_H
#define AGENT_LINK_MESSAGES_H

#include "agent/capture/capture.h"
#include "agent/clock/model.h"
#include "agent/link/env.h"
#include "proto/limits.h"
#include "proto/tutti/v1/control.pb-c.h"

struct rpc_call;

/* Packs and sends; does nothing when call is NULL. */
void message_send(struct rpc_call *call, const Tutti__V1__AgentMessage *m);

/* A ClockModel with the arrays it points at: must not be copied or moved. */
struct message_clock {
	Tutti__V1__ClockModel model;
	Tutti__V1__ClockStep steps[LIMIT_CLOCK_STEPS], *pointers[LIMIT_CLOCK_STEPS];
	Tutti__V1__ClockStep suspected;
};

/* offset_ns is the wall offset at m->at_raw_ns. `bound_ns` replaces the model's own bound. */
void message_clock(struct message_clock *out, const struct clock_model *m, int64_t bound_ns);

/* A number that changes when the list of jobs in Hello and Status changes. */
uint32_t message_jobs_digest(struct tracer *const *all);

/* The same for the tracers' health, and for the result of requests_held(). */
uint32_t message_tracers_digest(struct tracer *const *all);
uint32_t message_held_digest(Tutti__V1__Held *const *held, size_t n);

/* From when on the tracer's ring is complete, on the session clock; 0 = it has no ring, or the clock is not known yet.
 * A ring from before a sleep of the host begins earlier by that time than the model of now says. */
int64_t message_ring_begin_ns(const struct tracer *t, const struct clock_model *m);

/* Send Hello and Status; `held` is the result of requests_held(). */
void message_hello(struct rpc_call *call, const struct link_env *env, uint64_t instance,
		   Tutti__V1__Held **held, size_t n_held);
void message_status(struct rpc_call *call, const struct link_env *env, Tutti__V1__Held **held,
		    size_t n_held);

/* HostResult of a capture in READY or FAILED. `reason` and `detail` are given when there is no file. With a
 * file they are NULL and come from the first tracer that is not ok; a tracer that is off counts only if the
 * request named the tracers. */
struct message_result {
	const struct capture *capture;
	bool has_file, tracers_named;
	const char *reason, *detail;
};
void message_result(const struct message_result *r,
		    void (*send)(void *arg, const Tutti__V1__AgentMessage *m), void *arg);

#endif
