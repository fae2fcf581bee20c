/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this agent itself takes of its host, and what is done to keep it below a limit. Once a second the CPU time of
 * each tracer, that of the whole process, and its memory go into a ring.
 *
 * If the tracers together take more CPU than the limit in the mean of ten seconds, the most expensive one takes a step
 * down (tracer.h, ops->limit). The last step is undone when the mean has stayed below four fifths of the limit for a
 * minute (throttle.h). CPU that a finished capture takes, for names, merging and upload, is measured and not limited:
 * it ends by itself. If the process has more memory than the limit in the mean of ten seconds, what all rings may keep
 * is halved, up to three times; it is doubled again by the same rule.
 *
 * Loop thread.
 */
#ifndef AGENT_BUDGET_BUDGET_H
#define AGENT_BUDGET_BUDGET_H

#include <stdint.h>

#include "agent/tracer/counters.h"
#include "agent/tracer/ring.h"
#include "agent/tracer/tracer.h"

#define BUDGET_PERIOD_NS    NS_PER_S
#define BUDGET_HALVINGS_MAX 3

/* CPU time since the start, and resident memory now. */
struct budget_usage {
	int64_t cpu_ns;
	uint64_t resident_bytes;
};

struct budget_conf {
	struct loop *loop;
	struct ring_limits ring; /* of its own ring */
	double max_cpu_percent; /* of one CPU; 0 = no limit */
	uint64_t max_rss_bytes; /* 0 = no limit */
	/* What the agent's other processes use beside this one; NULL = there are none. */
	struct budget_usage (*others)(void *arg);
	void *others_arg;
	/* For tests; NULL = this process, and the tracers' accounts. */
	struct budget_usage (*usage)(void);
	int64_t (*tracer_cpu_ns)(const struct tracer *t);
};

struct budget;

/* With a limit it measures from now on, else once it is started. */
struct budget *budget_new(const struct budget_conf *conf);
void budget_free(struct budget *b); /* NULL is fine */

/* Measures from now on; a second call does nothing. */
void budget_start(struct budget *b);

/* The tracers that it measures and limits from now on, borrowed, NULL-terminated; NULL = none any more. */
void budget_watch(struct budget *b, struct tracer *const *tracers);

/* How often the rings are halved now: `halvings` for the struct ring_limits of all rings. Borrowed; it changes. */
const unsigned int *budget_halvings(const struct budget *b);

/* The counters that the tracer `budget` records. */
struct counters *budget_counters(const struct budget *b);

/* What is limited now: a sentence; "" if nothing is. */
const char *budget_sentence(const struct budget *b);

#endif
