/* SPDX-License-Identifier: Apache-2.0 */
/* Arm of a capture, serialized. The other messages to agents are in aggregator/fleet/messages.h. */
#ifndef AGGREGATOR_CAPTURES_ARM_MESSAGE_H
#define AGGREGATOR_CAPTURES_ARM_MESSAGE_H

#include <stdint.h>

#include "base/buf.h"

struct capture;

/* Appends to `out`, which is empty. A retry has a T0 of its own. */
void message_arm(struct buf *out, const struct capture *c, int64_t t0_ns);

#endif
