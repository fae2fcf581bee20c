/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations as XSpaces, one a process: the plane "/host:CPU" has one line a thread with its scopes and instants,
 * lines "ranges" and the line "_counters_". For a worker.
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

/* Copies the note if it is of the window. */
void plane_notes_add(struct plane_notes *notes, const struct note *n);
void plane_notes_release(struct plane_notes *notes);

/* Orders the notes, and cuts them to the window. */
void planes_build(const struct plane_notes *notes, struct build_parts *parts);

#endif
