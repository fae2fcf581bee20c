/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/states.h"

#include "base/mem.h"

const struct capture_transition capture_transitions[] = {
	{ CAP_ASKING, EVENT_STEP_EXPECTED, CAP_QUEUED },
	{ CAP_ASKING, EVENT_HOSTS_ENDED, CAP_REFUSED },
	{ CAP_QUEUED, EVENT_TURN, CAP_PLANNING },
	{ CAP_QUEUED, EVENT_HOSTS_ENDED, CAP_COMMITTING },
	{ CAP_PLANNING, EVENT_PLANNED, CAP_ARMING },
	{ CAP_PLANNING, EVENT_HOSTS_ENDED, CAP_COMMITTING },
	{ CAP_ARMING, EVENT_T0, CAP_RUNNING },
	{ CAP_ARMING, EVENT_HOSTS_ENDED, CAP_COMMITTING },
	{ CAP_RUNNING, EVENT_T1, CAP_UPLOADING },
	{ CAP_RUNNING, EVENT_HOSTS_ENDED, CAP_COMMITTING },
	{ CAP_UPLOADING, EVENT_HOSTS_ENDED, CAP_COMMITTING },
	{ CAP_COMMITTING, EVENT_COMMITTED, CAP_COMMITTED },
	{ CAP_COMMITTING, EVENT_DISCARDED, CAP_FAILED },
	{ CAP_QUEUED, EVENT_LOST, CAP_LOST },
	{ CAP_PLANNING, EVENT_LOST, CAP_LOST },
	{ CAP_ARMING, EVENT_LOST, CAP_LOST },
	{ CAP_RUNNING, EVENT_LOST, CAP_LOST },
	{ CAP_UPLOADING, EVENT_LOST, CAP_LOST },
	{ CAP_COMMITTING, EVENT_LOST, CAP_LOST },
};
const size_t capture_n_transitions = ARRAY_SIZE(capture_transitions);

/* A word for the tables in the docs, and one for the API, which does not show all states. */
static const struct {
	const char *word, *name;
} states[] = {
	[CAP_ASKING] = { "asking", "queued" },
	[CAP_QUEUED] = { "queued", "queued" },
	[CAP_PLANNING] = { "planning", "arming" },
	[CAP_ARMING] = { "arming", "arming" },
	[CAP_RUNNING] = { "running", "running" },
	[CAP_UPLOADING] = { "uploading", "uploading" },
	[CAP_COMMITTING] = { "committing", "committing" },
	[CAP_COMMITTED] = { "committed", "committed" },
	[CAP_FAILED] = { "failed", "failed" },
	[CAP_REFUSED] = { "refused", "failed" },
	[CAP_LOST] = { "lost", "failed" },
};

static const char *const events[] = {
	[EVENT_STEP_EXPECTED] = "step expected",
	[EVENT_TURN] = "its turn",
	[EVENT_PLANNED] = "plan durable",
	[EVENT_T0] = "T0",
	[EVENT_T1] = "T1",
	[EVENT_HOSTS_ENDED] = "hosts ended",
	[EVENT_COMMITTED] = "committed",
	[EVENT_DISCARDED] = "discarded",
	[EVENT_LOST] = "taken over",
};

const char *capture_state_word(enum capture_state state)
{
	return states[state].word;
}

const char *capture_state_name(enum capture_state state)
{
	return states[state].name;
}

const char *capture_event_word(enum capture_event event)
{
	return events[event];
}

bool capture_on(struct capture *c, enum capture_event event)
{
	for (size_t i = 0; i < capture_n_transitions; i++) {
		const struct capture_transition *t = &capture_transitions[i];

		if (t->from != c->state || t->event != event)
			continue;
		c->state = t->to;
		return true;
	}
	return false;
}

bool capture_is_queued(const struct capture *c)
{
	return c->state <= CAP_QUEUED;
}

bool capture_is_open(const struct capture *c)
{
	return c->state < CAP_COMMITTING;
}

bool capture_has_ended(const struct capture *c)
{
	return c->state >= CAP_COMMITTED;
}

bool capture_has_failed(const struct capture *c)
{
	return c->state >= CAP_FAILED;
}
