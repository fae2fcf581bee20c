/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "cgroups": numbers about pods, containers and the other cgroups of the host (groups.h), at regular times,
 * in the plane "/host:CPU cgroups". A worker reads.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/tracer/cgroups/groups.h"
#include "agent/tracer/cgroups/label.h"
#include "agent/tracer/counters.h"
#include "agent/tracer/ring_run.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

/* Reading all cgroups takes at most 1 / CPU_PART of a CPU: after an expensive reading the next one comes later. */
#define CPU_PART 1000

TRACER_DECLARE(cgroups);

struct cgroups_conf {
	char *cgroups_root;
	int cgroups_hz;
};

static const struct conf_field conf_fields[] = {
	CONF(struct cgroups_conf, cgroups_root, "",
	     "folder of cgroup v2; empty: where it is mounted below /sys/fs/cgroup"),
	CONF_RANGE(struct cgroups_conf, cgroups_hz, "1", 1, 10,
		   "readings of the cgroups of pods and containers per second"),
	{ 0 }
};

struct tracer_cgroups {
	struct tracer base;
	struct tracer_state state;
	struct counters *counters; /* NULL = off */
};

static struct tracer_cgroups *to_cgroups(const struct tracer *t)
{
	assert(t->ops == &tracer_cgroups_ops);
	return (struct tracer_cgroups *)t;
}

/* The worker's. */
struct reader {
	struct cgroups *groups;
	int64_t next_raw_ns; /* nothing is read before */
};

static double *add_row(void *reading, const char *label)
{
	return counters_add_row(reading, label);
}

static void read_groups(void *arg, int64_t raw_ns, struct counters_reading *reading)
{
	int64_t began_ns = now_thread_cpu_ns();
	struct reader *r = arg;

	if (raw_ns < r->next_raw_ns)
		return;
	cgroups_read(r->groups, raw_ns, add_row, reading);
	r->next_raw_ns = raw_ns + (now_thread_cpu_ns() - began_ns) * CPU_PART;
}

static const char *column_name(size_t column, char text[COUNTERS_NAME_BYTES])
{
	(void)text;
	return cgroups_column(column);
}

static void close_groups(void *arg)
{
	struct reader *r = arg;

	cgroups_free(r->groups);
	free(r);
}

static int cgroups_open_tracer(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct cgroups_conf *conf = env->conf;
	struct tracer_cgroups *t = xcalloc(1, sizeof(*t));
	struct counters_source source = { .plane = "/host:CPU cgroups",
					  .what = "numbers of cgroups",
					  .columns = cgroups_columns(),
					  .label_bytes = CGROUP_LABEL_BYTES,
					  .read = read_groups,
					  .name = column_name,
					  .free = close_groups };
	struct reader *reader;
	struct cgroups *groups;
	int rc;

	t->base.ops = &tracer_cgroups_ops;
	*out = &t->base;
	rc = cgroups_open(&groups, conf->cgroups_root, e);
	if (rc) {
		t->state.health = TRACER_OFF;
		t->state.errno_value = rc == ERR_DENIED ? EACCES : 0;
		snprintf(t->state.reason, sizeof(t->state.reason), "%.250s", e->msg);
		return 0;
	}
	if (*cgroups_limits(groups)) {
		t->state.health = TRACER_DEGRADED;
		snprintf(t->state.reason, sizeof(t->state.reason), "%.250s",
			 cgroups_limits(groups));
	}
	reader = xcalloc(1, sizeof(*reader));
	reader->groups = groups;
	source.arg = reader;
	t->counters = counters_start(env->loop, &source, NS_PER_S / conf->cgroups_hz, &env->ring);
	return 0;
}

static void cgroups_state(const struct tracer *t, struct tracer_state *out)
{
	*out = to_cgroups(t)->state;
}

/* ---- runs ---- */

static int64_t cgroups_begin(const struct tracer *tracer)
{
	const struct tracer_cgroups *t = to_cgroups(tracer);

	return t->counters ? ring_begin(counters_ring(t->counters)) : INT64_MAX;
}

static int cgroups_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_cgroups *t = to_cgroups(tracer);

	(void)e;
	if (t->counters)
		ring_run_arm(counters_ring(t->counters), run);
	return 0;
}

static void cgroups_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_cgroups *t = to_cgroups(tracer);

	if (t->counters) {
		counters_gather(t->counters, run, 1);
		return;
	}
	tracer_run_set_result(run, RUN_OFF,
			      t->state.errno_value ? REASON_NO_PERMISSION : REASON_UNSUPPORTED,
			      "%s", t->state.reason);
	run->done(run);
}

static void cgroups_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_cgroups *t = to_cgroups(tracer);

	if (t->counters)
		counters_cancel(t->counters, run);
}

static bool cgroups_limit(struct tracer *t, unsigned int step)
{
	return counters_limit(to_cgroups(t)->counters, step);
}

static void cgroups_free_tracer(struct tracer *tracer)
{
	counters_free(to_cgroups(tracer)->counters);
	free(tracer);
}

const struct tracer_ops tracer_cgroups_ops = {
	.name = "cgroups",
	.host_level = 2,
	.conf = conf_fields,
	.conf_size = sizeof(struct cgroups_conf),
	.open = cgroups_open_tracer,
	.state = cgroups_state,
	.begin_raw_ns = cgroups_begin,
	.arm = cgroups_arm,
	.gather = cgroups_gather,
	.cancel = cgroups_cancel,
	.limit = cgroups_limit,
	.free = cgroups_free_tracer,
};
