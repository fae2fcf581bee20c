/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a ring in the memory of another process, which is not trusted. The agent has a descriptor of its own
 * and uses pread(): so a file that shrinks gives short reads and no signal, and the ring can be read after
 * the process has ended. Blocks; for a worker.
 */
#ifndef AGENT_TRACER_ANNOTATIONS_SHARED_RING_H
#define AGENT_TRACER_ANNOTATIONS_SHARED_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tracer/annotations/note.h"
#include "agent/tracer/annotations/ticks.h"
#include "base/err.h"

struct shared_ring;

/* One reading of rings; zeroed by the caller. */
struct ring_reading {
	const struct ticks_map *map;
	int64_t now_raw_ns;
	size_t slots_left; /* the most slots to read; each ring also has a limit of its own */
	note_fn fn;
	void *arg;
	/* slots that were overwritten before they could be read, or are no records, and threads that found no lane */
	uint64_t lost;
	bool has_more; /* something is left to read */
};

/* Whose ring it is. */
struct ring_process {
	int32_t pid, inner_pid; /* here, and in its own PID namespace */
	/* its time namespace: how far the raw clock that it reads is ahead of the machine's */
	int64_t raw_ahead_ns;
	bool is_raw_unknown; /* and that cannot be known */
};

/* Opens the ring in `fd`, and takes `fd`, also on failure. `open_of_user` counts the open scopes of all rings of its
 * user, until it is freed. ERR_INVALID if it is no ring of that process, ERR_UNSUPPORTED if its clock is not known. */
MUST_CHECK int shared_ring_open(struct shared_ring **out, int fd, const struct ring_process *p,
				size_t *open_of_user, struct err *e);
void shared_ring_free(struct shared_ring *r); /* NULL is fine */

/* Reads what was written since the last time. */
void shared_ring_read(struct shared_ring *r, struct ring_reading *reading);

/* How many threads of its process found no lane: nothing of them is recorded. As its process says. */
uint64_t shared_ring_refused(const struct shared_ring *r);

/* The process has ended and everything was read: open scopes and ranges end now. */
void shared_ring_end(struct shared_ring *r, const struct ring_reading *reading);

/* Passes every open scope and range of this ring to reading->fn. */
void shared_ring_each_open(struct shared_ring *r, const struct ring_reading *reading);

#endif
