/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this agent itself takes of its host, and what is done to keep it below a limit. Once a second the CPU time of
 * each tracer, that of the whole process, and its memory go into a ring.
 *
 * If the tracers together take more CPU than the limit in the mean of ten seconds, the most expensive one takes a step
 * down (tracer.h, ops->limit); it takes it back when there has been room for a minute (throttle.h). CPU that a finished
 * capture takes, for names, merging and upload, is measured and not limited: it ends by itself. If the process has more
 * memory than the limit, all rings keep half of what they may, and so on, three times at most.
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

/* What is taken, ever; the defaults measure this process. */
struct budget_usage {
	int64_t cpu_ns;
	uint64_t resident_bytes;
};

struct budget_conf {
	struct loop *loop;
	struct ring_limits ring; /* of its own ring */
	double max_cpu_percent; /* of one CPU; 0 = no limit */
	uint64_t max_rss_bytes; /* 0 = no limit */
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

/* For struct ring_limits of all rings. */
const unsigned int *budget_halvings(const struct budget *b);

/* Its rows, for a tracer. */
struct counters *budget_counters(const struct budget *b);

/* What is limited now: a sentence; "" if nothing is. */
const char *budget_sentence(const struct budget *b);

#endif
