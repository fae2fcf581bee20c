/* SPDX-License-Identifier: Apache-2.0 */
/* A whole agent: its parts, started in order and stopped in reverse. Loop thread. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/conf.h"
#include "base/err.h"
#include "base/loop.h"

struct agent;

/* Starts every part. `conf` is finished; it and the loop are borrowed until agent_free(). On failure
 * nothing is left running and a log line names the part. The caller frees the agent with agent_free(). */
MUST_CHECK int agent_new(struct agent **out, const struct agent_conf *conf, struct loop *loop,
			 struct err *e);

/* Finishes and delivers what is being recorded, within --stop-limit; then calls `done` once: agent_free() comes next. */
void agent_leave(struct agent *a, loop_fn done, void *arg);

/* Disconnects from the aggregator and stops every part; turns the loop meanwhile. NULL is fine. */
void agent_free(struct agent *a);

#endif
