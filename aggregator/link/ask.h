/* SPDX-License-Identifier: Apache-2.0 */
/* Ask of control.proto: a process begins or stops a capture through the local socket of its host's agent, or the
 * agent has a profile of a program.
 * Private to link/. Loop thread. */
#ifndef AGGREGATOR_LINK_ASK_H
#define AGGREGATOR_LINK_ASK_H

#include "proto/tutti/v1/control.pb-c.h"

struct control_env;
struct host;

/* Does what the process asks for, and sends the answer to the host's agent: an error at once, success when the
 * change is durable. Without a link at that time there is no answer. */
void ask_handle(const struct control_env *env, struct host *h, const Tutti__V1__Ask *ask);

#endif
