/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the aggregator which training step this host is at, while it asks to be told: at once, then as
 * steps begin, but not more often than it wants. Nothing is said unasked, but for what Status carries.
 */
#ifndef AGENT_LINK_STEP_REPORTER_H
#define AGENT_LINK_STEP_REPORTER_H

#include <stdint.h>

#include "proto/tutti/v1/control.pb-c.h"

struct link_env;
struct step_reporter;

typedef void (*step_reporter_send_fn)(void *arg, const Tutti__V1__AgentMessage *m);

struct step_reporter *step_reporter_new(const struct link_env *env, step_reporter_send_fn send,
					void *arg);
void step_reporter_free(struct step_reporter *t);

/* The aggregator listens for so long from now. */
void step_reporter_listen(struct step_reporter *t, const Tutti__V1__StepWatch *m);
void step_reporter_link_down(struct step_reporter *t);

/* What there is to tell: unknown where no step was marked, or the clock is not calibrated. */
void step_message(const struct link_env *env, Tutti__V1__Steps *out);

#endif
