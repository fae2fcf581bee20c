/* SPDX-License-Identifier: Apache-2.0 */
/* The perf events of all CPUs that are online, read together. Loop thread. */
#ifndef AGENT_PERF_RINGS_H
#define AGENT_PERF_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/perf/ring.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

struct perf_rings {
	size_t n; /* CPUs with an event */
	struct perf_ring_watch *v;
	struct buf scratch;
	void (*due)(void *arg); /* a ring is half full */
	void *arg;
};

/*
 * Opens the event of each CPU, not yet counting. If the kernel refuses one, returns that error; the `n`
 * events that were opened before may be used. errno_value is the kernel's. Ends with perf_rings_close() in
 * any case.
 */
MUST_CHECK int perf_rings_open(struct perf_rings *rs, const struct perf_source *source,
			       int *errno_value, struct err *e);
void perf_rings_close(struct perf_rings *rs);

/* Adds the records of a tracepoint to all rings, before they are started. If the kernel refuses one, none has it. */
MUST_CHECK int perf_rings_add_tracepoint(struct perf_rings *rs, uint32_t id, int *errno_value,
					 struct err *e);

/* Counts from now on, and calls `due` on the loop when a ring should be read soon. */
void perf_rings_start(struct perf_rings *rs, struct loop *loop, void (*due)(void *arg), void *arg);

/* Stops the events if `paused`, else starts them again. Starts, ends and names of processes are not seen meanwhile. */
void perf_rings_pause(struct perf_rings *rs, bool paused);

/* Takes the records of one CPU's ring, as the kernel wrote them. */
typedef void (*perf_rings_fn)(void *arg, int cpu, const void *bytes, size_t len);

/* Calls fn for each ring with the records that are there now, and frees them for the kernel. */
void perf_rings_take(struct perf_rings *rs, perf_rings_fn fn, void *arg);

/* Cause and fix of a refusal, for people: "only 3 CPUs are recorded: ...". */
void perf_rings_explain(const struct perf_rings *rs, const struct err *e, char *out, size_t size);

#endif
