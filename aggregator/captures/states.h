/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a capture: which event leads from which state to which. Private to captures/. */
#ifndef AGGREGATOR_CAPTURES_STATES_H
#define AGGREGATOR_CAPTURES_STATES_H

#include <stdbool.h>
#include <stddef.h>

#include "aggregator/captures/capture.h"

enum capture_event {
	EVENT_STEP_EXPECTED, /* hosts have reported when the step will begin */
	EVENT_TURN, /* it need not wait any more */
	EVENT_PLANNED, /* the plan is durable */
	EVENT_T0,
	EVENT_T1,
	EVENT_HOSTS_ENDED, /* the last host has ended */
	EVENT_COMMITTED, /* the ledger has carried the end out */
	EVENT_DISCARDED,
	EVENT_LOST, /* another aggregator has taken the session over */
};

struct capture_transition {
	enum capture_state from;
	enum capture_event event;
	enum capture_state to;
};

/* docs/architecture.md prints it. */
extern const struct capture_transition capture_transitions[];
extern const size_t capture_n_transitions;

const char *capture_state_word(
	enum capture_state state); /* "planning": as in the table of the docs */
const char *capture_event_word(enum capture_event event);

/* Sets the next state. False, and nothing has changed, if the event means nothing in the present state. */
bool capture_on(struct capture *c, enum capture_event event);

#endif
