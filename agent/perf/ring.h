/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One perf event of one CPU, with its ring in kernel memory. The event samples what runs on the CPU, hz times
 * a second, or records each context switch. The ring also has records of processes' names, starts and ends;
 * with samples, of their mappings, too. A tracepoint may put its records into the same ring.
 */
#ifndef AGENT_PERF_RING_H
#define AGENT_PERF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/perf/decode.h"
#include "base/buf.h"
#include "base/err.h"

struct perf_source {
	int hz; /* samples a second; 0 = context switches */
	int cgroup_fd; /* a folder of cgroup v2: events of its tasks only; -1 = of all tasks */
	/* PERF_LAYOUT_SHORT: each record costs a tenth less, of all context switches */
	enum perf_layout layout;
};

struct perf_ring {
	int fd;
	int tracepoint_fd; /* -1 = none */
	int cpu;
	void *page; /* the mapping: one page of state, then the ring */
	size_t ring_bytes; /* a power of two */
};

/* Opens the event of one CPU, not yet counting. Stamps are CLOCK_MONOTONIC_RAW. ERR_NOT_FOUND: the CPU is
 * not online. ERR_DENIED, ERR_UNSUPPORTED: the kernel's answer; errno is kept. */
MUST_CHECK int perf_ring_open(struct perf_ring *ring, int cpu, const struct perf_source *source,
			      struct err *e);
void perf_ring_close(struct perf_ring *ring);

/* Adds the records of a tracepoint on this CPU, as samples with raw bytes, not yet counting; once. Errors as above. */
MUST_CHECK int perf_ring_add_tracepoint(struct perf_ring *ring, uint32_t id, struct err *e);
void perf_ring_drop_tracepoint(struct perf_ring *ring);

void perf_ring_enable(struct perf_ring *ring, bool on);

/* Appends the records that are there now to `out` and frees their bytes for the kernel. */
void perf_ring_take(struct perf_ring *ring, struct buf *out);

#endif
