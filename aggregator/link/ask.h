/* SPDX-License-Identifier: Apache-2.0 */
/* Handles Ask of control.proto. A process asks through its agent's local socket to begin or stop a capture,
 * or an agent asks for a snapshot because it found a profile that a program made. Private to link/. Loop
 * thread. */
#ifndef AGGREGATOR_LINK_ASK_H
#define AGGREGATOR_LINK_ASK_H

#include "proto/tutti/v1/control.pb-c.h"

struct control_env;
struct host;

/* Does what the process asks for, and sends the answer to the host's agent: an error at once, success when the
 * change is durable. Without a link at that time there is no answer. */
void ask_handle(const struct control_env *env, struct host *h, const Tutti__V1__Ask *ask);

#endif
