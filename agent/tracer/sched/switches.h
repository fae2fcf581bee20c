/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of context switches, 16 bytes each: from which thread to which a CPU went; and of wake-ups, where the kernel
 * reports them. Takes the bytes of the
 * kernel's rings. Every flush adds a record (`is_state`) of what runs on each CPU, because a thread that runs
 * alone makes no switch for a long time.
 */
#ifndef AGENT_TRACER_SCHED_SWITCHES_H
#define AGENT_TRACER_SCHED_SWITCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/perf/threads.h"
#include "agent/tracer/ring.h"
#include "base/now.h"

/* Largest values of Linux: PID_MAX_LIMIT and CONFIG_NR_CPUS. */
#define SWITCH_TID_BITS 22
#define SWITCH_CPU_BITS 13

/* How late a record may come: the CPUs' rings are read one after the other. */
#define SWITCH_LATE_NS NS_PER_S

/* A record of the ring, which adds the time. Thread 0 is the idle task, or one that is not known. */
struct cpu_switch {
	uint64_t from : SWITCH_TID_BITS, to : SWITCH_TID_BITS, cpu : SWITCH_CPU_BITS;
	uint64_t preempted : 1; /* `from` could have gone on */
	uint64_t is_state : 1; /* no switch: `from` runs, and is `to` */
	uint64_t pause : 1; /* no switch: what runs from now on is not known */
	uint64_t wakes : 1; /* no switch: `to` may run from now on */
};

struct switches;

struct switches_conf {
	struct ring_limits ring;
	/* only one cgroup's switches are recorded: the thread that follows one of its threads on a CPU is unknown */
	bool of_cgroup;
	/* where a sample's raw bytes have the thread that is woken up; 0 = samples are no wake-ups */
	size_t woken_at;
	int64_t now_raw_ns; /* switches begin here */
};

struct switches *switches_new(const struct switches_conf *conf);
void switches_free(struct switches *s); /* NULL is fine */

/* Records of a CPU's ring, as the kernel wrote them: of a cgroup with the ids of their threads, else in the short
 * layout. */
void switches_feed(struct switches *s, uint32_t cpu, const void *bytes, size_t len);

/* Notes what runs on each CPU. All records stamped before `until_raw_ns` have been fed. */
void switches_flush(struct switches *s, int64_t until_raw_ns);

/* To be called where recording stops, and where it resumes: the switches between are missing. All records stamped
 * before `raw_ns` have been fed. */
void switches_pause(struct switches *s, int64_t raw_ns);

struct ring *switches_ring(const struct switches *s);
struct threads *switches_threads(const struct switches *s);

#endif
