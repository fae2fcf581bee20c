/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow part of a gather(). A worker builds the run's parts from a snapshot of records that the job owns;
 * then the loop's thread adds them to the run. Meanwhile the tracer may cancel the job, or be freed.
 */
#ifndef AGENT_TRACER_BUILD_JOB_H
#define AGENT_TRACER_BUILD_JOB_H

#include "agent/tracer/tracer.h"
#include "xspace/xspace.h"

struct build_parts;

/* Begins the next part: of the process `pid`, or of the agent (0). Returns its builder, borrowed until the next
 * call. */
struct xs_builder *build_parts_next(struct build_parts *parts, int64_t pid, const char *label);

struct build_job {
	/* Set one of the two: `build` makes the run's only part, `build_each` one part after the other.
	 * Called on the worker; uses only the snapshot. Returns how many records could not be read. */
	uint64_t (*build)(void *snapshot, struct xs_builder *b);
	uint64_t (*build_each)(void *snapshot, struct build_parts *parts);
	void (*free)(void *snapshot);
	void *snapshot; /* owned by the job from build_job_start() on */
	/* At most BUILD_SMALL_BYTES of records: they are built at once, on the loop's thread. The way to a worker and
	 * back would cost more. */
	bool is_small;
	bool is_empty; /* the snapshot has no records: no worker, and the run is done at once */
};

#define BUILD_SMALL_BYTES (16U << 10)

/* When the parts are built, adds them to the run (with base PART_RAW), adds the unread records to run->lost,
 * and calls run->done(). The run's result, reason and detail stay as they are. Uses run->arg. */
void build_job_start(struct loop *l, struct tracer_run *run, const struct build_job *job);

/* For ops->cancel(): the run is not used after this. Does nothing if no job was started (run->arg NULL). */
void build_job_cancel(struct tracer_run *run);

#endif
