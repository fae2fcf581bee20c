/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures that the aggregator ordered: from Arm to the last word about each. Loop thread.
 *
 *   Arm -> Armed | Refused -> Progress running, gathering, uploading -> (Upload) -> HostResult -> (Release)
 *
 * A request outlives the link: what is under way goes on, and when the link is back it is told how far
 * each has come (Held of control.proto). A finished file is kept until Release, Cancel or the end of its
 * lease, 10 minutes after the deadline; the spool remembers it, so that the next agent goes on with it
 * where this one was killed.
 */
#ifndef AGENT_LINK_REQUESTS_H
#define AGENT_LINK_REQUESTS_H

#include <jansson.h>
#include <stdint.h>

#include "proto/tutti/v1/control.pb-c.h"

struct link_env;
struct requests;
struct rpc_channel;

/* The control link, as capture requests use it. */
struct requests_link {
	uint64_t instance; /* of this agent's Hello */
	/* Called from inside all functions below, also while the link is down: then it does nothing. */
	void (*send)(void *arg, const Tutti__V1__AgentMessage *m);
	struct rpc_channel *(*channel)(void *arg); /* NULL while the link is down */
	void *arg;
};

/* Takes up what the spool has left. */
struct requests *requests_new(const struct link_env *env, const struct requests_link *link);

/* Cancels what is under way; finished files stay in the spool for the next agent. NULL is fine. */
void requests_free(struct requests *o);

/* The messages have passed control_unpack_from_aggregator(). A session that is not known is ignored:
 * it may have ended while the message was under way. */
void requests_take_arm(struct requests *o, Tutti__V1__Arm *m); /* frees it when done with it */
void requests_stop(struct requests *o, const Tutti__V1__Stop *m);
void requests_cancel(struct requests *o, const char *session);
void requests_upload(struct requests *o, const Tutti__V1__Upload *m);
void requests_release(struct requests *o, const char *session);

/* Welcome has come: says again how far each request is. */
void requests_link_up(struct requests *o);
void requests_link_down(struct requests *o);

/* For Hello and Status: n pointers that borrow from the requests, to be freed at once. */
Tutti__V1__Held **requests_held(const struct requests *o, size_t *n);
void requests_held_free(Tutti__V1__Held **list, size_t n);

/* [{"session", "state", "bytes", "bytes_done"}]; a new reference. */
json_t *requests_json(const struct requests *o);

#endif
