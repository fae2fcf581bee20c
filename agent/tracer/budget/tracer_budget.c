/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer "budget": what the agent itself takes of its host (agent/budget/budget.h), in the plane "/host:CPU agent". */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/budget/budget.h"
#include "agent/tracer/ring_run.h"
#include "base/mem.h"

TRACER_DECLARE(budget);

struct tracer_budget {
	struct tracer base;
	const struct budget *budget;
};

static const struct tracer_budget *to_budget(const struct tracer *t)
{
	assert(t->ops == &tracer_budget_ops);
	return (const struct tracer_budget *)t;
}

static struct counters *counters_of(const struct tracer *t)
{
	return budget_counters(to_budget(t)->budget);
}

static int budget_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	struct tracer_budget *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_budget_ops;
	t->budget = env->budget;
	budget_start(env->budget);
	*out = &t->base;
	return 0;
}

static void budget_state(const struct tracer *t, struct tracer_state *out)
{
	const char *limited = budget_sentence(to_budget(t)->budget);

	*out = (struct tracer_state){ .health = *limited ? TRACER_DEGRADED : TRACER_OK };
	snprintf(out->reason, sizeof(out->reason), "%s", limited);
}

static int64_t budget_begin(const struct tracer *t)
{
	return ring_begin(counters_ring(counters_of(t)));
}

static int budget_arm(struct tracer *t, struct tracer_run *run, struct err *e)
{
	(void)e;
	ring_run_arm(counters_ring(counters_of(t)), run);
	return 0;
}

static void budget_gather(struct tracer *t, struct tracer_run *run)
{
	counters_gather(counters_of(t), run, 1);
}

static void budget_cancel(struct tracer *t, struct tracer_run *run)
{
	counters_cancel(counters_of(t), run);
}

static void budget_close(struct tracer *t)
{
	free(t);
}

const struct tracer_ops tracer_budget_ops = {
	.name = "budget",
	.host_level = 2,
	.open = budget_open,
	.state = budget_state,
	.begin_raw_ns = budget_begin,
	.arm = budget_arm,
	.gather = budget_gather,
	.cancel = budget_cancel,
	.free = budget_close,
};
