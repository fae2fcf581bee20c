/* SPDX-License-Identifier: Apache-2.0 */
/* The tracers that the configuration wants, opened. Loop thread. */
#ifndef AGENT_TRACER_SET_H
#define AGENT_TRACER_SET_H

#include "agent/tracer/tracer.h"

/* `all` is the build's list, tracers[] but in tests. `*out` is a NULL-terminated array of those that
 * env->conf->tracers names; yours: tracer_set_close(). */
MUST_CHECK int tracer_set_open(struct tracer ***out, const struct tracer_ops *const *all,
			       const struct tracer_env *env, struct err *e);
void tracer_set_close(struct tracer **set); /* NULL is fine */

#endif
