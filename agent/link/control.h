/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control stream: dials the aggregator, says Hello, reports Status every 2 s, hands requests to
 * requests.c, and dials again with growing, jittered pauses when the link is gone. Loop thread.
 *
 * Each change of the link is one log line, AGT-LINK; a message that breaks the protocol is one line
 * AGT-PEER and costs the aggregator the connection.
 */
#ifndef AGENT_LINK_CONTROL_H
#define AGENT_LINK_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/link/env.h"
#include "agent/link/questions.h"
#include "base/err.h"

struct control;

/* Begins to dial at once. ERR_INVALID for an address that cannot be one. Yours: control_free(). */
MUST_CHECK int control_new(struct control **out, const struct link_env *env, struct err *e);

/* Says Goodbye and waits a moment for it to arrive, turning the loop; drops what was ordered. NULL is
 * fine. */
void control_free(struct control *c);

bool control_is_connected(const struct control *c);

/* For Ask of control.proto; all borrowed for the call. */
struct control_question {
	const char *verb; /* "start", "stop" */
	const char *session; /* for stop; else "" */
	const char *hosts; /* selector, "" = this host */
	int64_t duration_ns;
	const char *run;
};

/* fn is called exactly once, now or later; "no" with the reason when there is no link. */
void control_ask(struct control *c, const struct control_question *q, answer_fn fn, void *arg);

/* Captures under way for the aggregator, as requests_json(). A new reference. */
json_t *control_captures_json(const struct control *c);

#endif
