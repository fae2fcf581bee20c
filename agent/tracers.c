/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracers.h"

#include <stddef.h>

#define TABLE(name) &tracer_##name##_ops,

const struct tracer_ops *const tracers[] = { TRACERS(TABLE) NULL };
