/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds XSpaces from annotations, one XSpace per process. Its plane "/host:CPU" has a line per thread with
 * scopes and instants, lines "ranges", and the line "_counters_". For a worker.
 */
#ifndef AGENT_TRACER_ANNOTATIONS_PLANE_H
#define AGENT_TRACER_ANNOTATIONS_PLANE_H

#include "agent/tracer/annotations/note.h"
#include "agent/tracer/build_job.h"
#include "base/buf.h"

struct plane_notes {
	int64_t t0_raw_ns, t1_raw_ns; /* the window */
	struct buf row; /* of notes, each of NOTE_BYTES rounded up to 8 */
	size_t n;
};

/* Adds a copy of the note if it is in the window. */
void plane_notes_add(struct plane_notes *notes, const struct note *n);
void plane_notes_release(struct plane_notes *notes);

/* Orders the notes, and cuts them to the window. */
void planes_build(const struct plane_notes *notes, struct build_parts *parts);

#endif
