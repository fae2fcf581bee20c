/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's capture requests on this host, from Arm to Release. Loop thread.
 *
 *   Arm -> Armed | Refused -> Progress running, gathering, uploading -> (Upload) -> HostResult -> (Release)
 *
 * There is no Progress "running" of a window that was over when it was armed.
 *
 * A request outlives the control link: its capture goes on, and when the link is back the aggregator gets
 * the state of each request (Held of control.proto). A finished file is kept until Release, Cancel or the
 * end of its lease, 10 minutes after the deadline. The spool has an entry for it: if this agent is killed,
 * the next one delivers the file.
 */
#ifndef AGENT_LINK_REQUESTS_H
#define AGENT_LINK_REQUESTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/tutti/v1/control.pb-c.h"

struct link_env;
struct requests;
struct rpc_channel;

/* The part of the control link that capture requests use. */
struct requests_link {
	uint64_t instance; /* of this agent's Hello */

	/* May be called from inside all functions below. Does nothing while the link is down. */
	void (*send)(void *arg, const Tutti__V1__AgentMessage *m);
	struct rpc_channel *(*channel)(void *arg); /* NULL while the link is down */
	void *arg;
};

/* Begins with the finished files that an earlier agent left in the spool. */
struct requests *requests_new(const struct link_env *env, const struct requests_link *link);

/* Takes up files of an earlier agent that could not be read until now. Cheap if there are none. */
void requests_adopt_files(struct requests *rs);

/* Cancels captures under way; finished files stay in the spool for the next agent. NULL is fine. */
void requests_free(struct requests *rs);

/* This agent stops at limit_mono_ns at the latest. Windows that end in the first half of the time until then, of captures
 * that are still to be armed, too, are finished; those that begin later are left to the agent that follows, or refused
 * if none does; all others end at once, or in the middle of that time if they have not begun. */
void requests_leave(struct requests *rs, int64_t limit_mono_ns);

/* Whether waiting is of no use any more: each file is made, and delivered if the aggregator can take it. */
bool requests_have_settled(const struct requests *rs);

/* The messages have passed control_unpack_from_aggregator(). An unknown session is ignored: the request
 * may have ended while the message was under way. */
void requests_arm(struct requests *rs, Tutti__V1__Arm *m); /* takes ownership of the message */
void requests_stop(struct requests *rs, const Tutti__V1__Stop *m);
void requests_cancel(struct requests *rs, const char *session);
void requests_upload(struct requests *rs, const Tutti__V1__Upload *m);
void requests_release(struct requests *rs, const char *session);

/* Welcome has come: reports the state of each request. */
void requests_link_up(struct requests *rs);
void requests_link_down(struct requests *rs);

/* What was sent of late may not have arrived, though the link is up: reports the state of each request. */
void requests_report_again(const struct requests *rs);

/* For Hello and Status: n pointers that borrow from the requests. The caller frees them at once with
 * requests_held_free(). */
Tutti__V1__Held **requests_held(const struct requests *rs, size_t *n);
void requests_held_free(Tutti__V1__Held **list, size_t n);

/* Whether a capture is under way, or a finished file waits. */
bool requests_are_held(const struct requests *rs);

/* [{"session", "state", "bytes", "bytes_done"}]; a new reference. */
json_t *requests_json(const struct requests *rs);

#endif
