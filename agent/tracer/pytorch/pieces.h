/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that records in pieces, one after the other, because nothing tells it beforehand when the window ends.
 * Their events are in one XSpace; the time between the pieces is not recorded, and the detail says so. Loop thread.
 */
#ifndef AGENT_TRACER_PYTORCH_PIECES_H
#define AGENT_TRACER_PYTORCH_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/tracer/pytorch/processes.h"
#include "agent/tracer/pytorch/recording.h"

#define PIECES_PROCESSES_MAX 256 /* of a run */

struct pieces {
	struct pieces *next; /* the owner's */
	int64_t pid;
	char comm[16];
	int64_t asked_real_ns; /* for the first time in the window */
	char *path; /* of the XSpace of all pieces; NULL = none has an event */
	int64_t start_real_ns; /* its times count from here */
	unsigned int n; /* pieces that were recorded */
	int64_t recorded_ns;
	const char *reason; /* of the last piece that is missing; "" = none is */
	char why[160];
};

struct pieces *pieces_new(const struct pytorch_process *p);
void pieces_free(struct pieces *p);

/* A recording of the process has ended; takes its file. */
void pieces_take(struct pieces *p, struct recording *r);

/* Returns why the recording of the process is not complete, one of proto/reasons.h; writes a sentence about
 * [asked_real_ns, to_real_ns) into `text`. */
const char *pieces_describe(const struct pieces *p, int64_t to_real_ns, char *text, size_t size);

#endif
