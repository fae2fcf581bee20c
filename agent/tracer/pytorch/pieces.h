/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that records in pieces, one after the other, because nothing tells it beforehand when the window ends.
 * Their events are in one XSpace; the time between the pieces is not recorded, and the detail says how long that
 * is. A process with a hook (hook.h) that is recorded in one piece is complete. Loop thread.
 */
#ifndef AGENT_TRACER_PYTORCH_PIECES_H
#define AGENT_TRACER_PYTORCH_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/tracer/pytorch/processes.h"
#include "agent/tracer/pytorch/recording.h"

#define PIECES_PROCESSES_MAX 256 /* of a run */

struct pieces {
	struct pieces *next; /* the owner's */
	int64_t pid;
	char comm[16];
	int32_t inner_pid;
	uint32_t uid;
	int64_t asked_real_ns; /* when it first could have been told of a recording */
	char *path; /* of the XSpace of all pieces; NULL = none has an event */
	int64_t start_real_ns; /* its times count from here */
	unsigned int n; /* pieces that were recorded */
	int64_t recorded_ns, from_real_ns,
		to_real_ns; /* of them together; from the first to the last */
	bool is_open; /* its hook ended the last one */
	const char *reason; /* of the last piece that is missing; "" = none is */
	char why[160];
};

struct pieces *pieces_new(const struct pytorch_process *p);
void pieces_free(struct pieces *p);

/* A recording of the process has ended; takes its file. */
void pieces_take(struct pieces *p, struct recording *r);

/* Returns why the recording of the process is not complete, one of proto/reasons.h, or ""; writes a sentence about
 * [asked_real_ns, to_real_ns) into `text`. `was_killed`: it ended without its hook. */
const char *pieces_describe(const struct pieces *p, int64_t to_real_ns, bool was_killed, char *text,
			    size_t size);

#endif
