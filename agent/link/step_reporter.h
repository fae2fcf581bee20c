/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the host's training step while the aggregator watches it (StepWatch of control.proto): at once,
 * then when a step begins, but no sooner than StepWatch's gap after the last report. At other times steps are
 * a part of Status. Loop thread.
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
void step_reporter_free(struct step_reporter *r);

/* The aggregator watches from now on for the time that the message gives. */
void step_reporter_watch(struct step_reporter *r, const Tutti__V1__StepWatch *m);
void step_reporter_link_down(struct step_reporter *r);

/* `known` is false if no step was marked or the clock is not calibrated. */
void fill_steps_message(const struct link_env *env, Tutti__V1__Steps *out);

#endif
