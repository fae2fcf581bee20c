/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow part of a gather(): a worker builds the run's parts from a snapshot that the job owns, then
 * the loop's thread adds them to the run. The tracer may cancel, or be freed, while the worker is busy.
 */
#ifndef AGENT_TRACER_BUILD_JOB_H
#define AGENT_TRACER_BUILD_JOB_H

#include "agent/tracer/tracer.h"
#include "xspace/xspace.h"

struct build_parts;

/* Begins the next part and returns its builder, borrowed until the next call: of the process `pid`, or of the agent
 * (0). */
struct xs_builder *build_parts_next(struct build_parts *parts, int64_t pid, const char *label);

struct build_job {
	/* Called on the worker; uses only the snapshot. Returns how many records could not be read. One of the
	 * two: the run's only part, or one part after the other. */
	uint64_t (*build)(void *snapshot, struct xs_builder *b);
	uint64_t (*build_each)(void *snapshot, struct build_parts *parts);
	void (*free)(void *snapshot);
	void *snapshot; /* owned by the job from build_job_start() on */
};

/* Adds the parts, of base PART_RAW, to the run and calls run->done() when they are built; the run's result,
 * reason and detail are left as they are, what could not be read is added to lost. Uses run->arg. */
void build_job_start(struct loop *l, struct tracer_run *run, const struct build_job *job);

/* For ops->cancel(): the run is not used after this. Does nothing if no job was started (run->arg NULL). */
void build_job_cancel(struct tracer_run *run);

#endif
