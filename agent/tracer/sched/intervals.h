/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the times of threads from switches: a thread is "running" while a CPU has it, and "runnable" from a
 * preemption, or from a wake-up where those are recorded, until it runs. At all other times it is blocked. If a record
 * was lost, the time around it is left out, never guessed. Pure.
 */
#ifndef AGENT_TRACER_SCHED_INTERVALS_H
#define AGENT_TRACER_SCHED_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/tracer/sched/switches.h"

struct interval {
	int64_t start_ns, end_ns;
	uint32_t tid;
	uint16_t cpu; /* where it ran */
	bool runnable; /* it waited for a CPU */
};

struct intervals_conf {
	int64_t t0_ns, t1_ns; /* the window */
	int64_t min_ns; /* shorter ones are left out */
	size_t max; /* of intervals */
};

struct intervals;

struct intervals *intervals_new(const struct intervals_conf *conf);
void intervals_free(struct intervals *in); /* NULL is fine */

/* Records of a CPU come in order of time, those of different CPUs up to SWITCH_LATE_NS late. Records before the window tell what ran and what waited when it began.
 * Records after the window tell, for a CPU without a switch in the window, which thread ran all the time. */
void intervals_add(struct intervals *in, int64_t raw_ns, const struct cpu_switch *record);

/* Ends what is open at T1. Sorted by thread and time; borrowed. */
const struct interval *intervals_finish(struct intervals *in, size_t *n);

/* After intervals_finish(): how many were left out because a switch is missing, or because there were too many. */
uint64_t intervals_lost(const struct intervals *in);

#endif
