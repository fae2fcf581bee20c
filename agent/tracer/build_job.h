/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow half of a gather(): a worker builds the run's one part from a snapshot that belongs to the
 * job, then the loop's thread hands it over. The tracer may cancel, or end, while the worker is busy.
 */
#ifndef AGENT_TRACER_BUILD_JOB_H
#define AGENT_TRACER_BUILD_JOB_H

#include "agent/tracer/tracer.h"
#include "xspace/xspace.h"

struct build_job {
	/* On the worker; sees only the snapshot. */
	void (*build)(void *snapshot, struct xs_builder *b);
	void (*free)(void *snapshot);
	void *snapshot; /* the job's, from build_job_start() on */
};

/* Adds a part of base PART_RAW to the run and calls run->done() when it is built; the run's result,
 * reason, detail and lost are left as they are. Uses run->arg. */
void build_job_start(struct loop *l, struct tracer_run *run, const struct build_job *job);

/* For ops->cancel(): the run is not touched any more. Fine if no job was started (arg NULL). */
void build_job_cancel(struct tracer_run *run);

#endif
