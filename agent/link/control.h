/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control link: dials the aggregator, sends Hello, reports Status when something changes and at least
 * every 2 minutes, hands capture requests to requests.c, and dials again after growing, random pauses when
 * the link is down, one address after the other if there are several. A Welcome with a lower term than an earlier one
 * had is from a former leader: that link is closed. Loop thread.
 *
 * Each change of the link is one log line, AGT-LINK. A message that breaks the protocol is one log line,
 * AGT-PEER, and ends the connection.
 */
#ifndef AGENT_LINK_CONTROL_H
#define AGENT_LINK_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/link/env.h"
#include "agent/link/questions.h"
#include "base/err.h"
#include "base/loop.h"

struct control;

/* Dials from the next turn of the loop on. ERR_INVALID if `aggregator` is not HOST:PORT[,HOST:PORT]...: of several
 * the one that answers is the leader (docs/replicas.md). The caller frees it with control_free(). */
MUST_CHECK int control_new(struct control **out, const struct link_env *env, struct err *e);

/* Disconnects: sends the last message and turns the loop for at most half a second until it has arrived.
 * Ends all capture requests as requests_free() does. NULL is fine. */
void control_free(struct control *c);

/* This agent stops: finishes and delivers what it can within limit_ns, as requests_leave() does, and tells the aggregator
 * that another agent follows if one does. Calls `done` once, soon if there is nothing to finish; control_free() comes
 * after that, or before if it cannot wait. */
void control_leave(struct control *c, int64_t limit_ns, loop_fn done, void *arg);

bool control_is_connected(const struct control *c);

/* Why it is not; "" while it is, and before the first attempt has ended. Borrowed. */
const char *control_error(const struct control *c);

/* Ask of control.proto; all borrowed for the call. */
struct control_question {
	const char *verb; /* "start", "stop", "snapshot" */
	const char *session; /* for stop; else "" */
	const char *hosts; /* selector, "" = this host */
	int64_t duration_ns;
	int64_t ending_at_ns; /* for snapshot: session clock */
	const char *run;
	const char *token; /* the aggregator's, "" = none */
};

/* Calls fn exactly once, before it returns or later. While the link is down the answer is "no" with the
 * cause. */
void control_ask(struct control *c, const struct control_question *q, answer_fn fn, void *arg);

/* The capture requests, as requests_json(). A new reference. */
json_t *control_captures_json(const struct control *c);

#endif
