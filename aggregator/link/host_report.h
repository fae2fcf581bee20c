/* SPDX-License-Identifier: Apache-2.0 */
/* Takes what an agent reports about its host into the registry. The messages have passed
 * control_unpack_from_agent(). Private to link/. Loop thread. */
#ifndef AGGREGATOR_LINK_HOST_REPORT_H
#define AGGREGATOR_LINK_HOST_REPORT_H

#include "aggregator/fleet/registry.h"
#include "proto/tutti/v1/control.pb-c.h"

/* Hello replaces everything: clock and training step are unknown afterwards, and the host has a new cookie. */
void host_take_hello(struct host *h, const Tutti__V1__Hello *hello);

/* Status replaces what it has; missing tracers and training steps stay as they were. */
void host_take_status(struct host *h, const Tutti__V1__Status *s);

void host_take_steps(struct host *h, const Tutti__V1__Steps *s);

#endif
