/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring in the memory of another process, read without trust: by pread() from a descriptor of the agent's own, so
 * a file that shrinks gives short reads and no signal, and the ring outlives its process. Blocks; for a worker.
 */
#ifndef AGENT_TRACER_ANNOTATIONS_SHARED_RING_H
#define AGENT_TRACER_ANNOTATIONS_SHARED_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tracer/annotations/note.h"
#include "agent/tracer/annotations/ticks.h"
#include "base/err.h"

struct shared_ring;

/* What a ring was read for; zeroed by the caller. */
struct ring_reading {
	const struct ticks_map *map;
	int64_t now_raw_ns;
	size_t slots_left; /* to read at most; those of one ring are bounded besides */
	note_fn fn;
	void *arg;
	uint64_t
		lost; /* slots that were overwritten before they could be read, or are no records */
	bool has_more; /* not all was read */
};

/* The ring in `fd`, which is the ring's from now on, also on failure: it belongs to process `pid`, which is
 * `inner_pid` to itself. ERR_INVALID if it is no ring of that process. */
MUST_CHECK int shared_ring_open(struct shared_ring **out, int fd, int32_t pid, int32_t inner_pid,
				struct err *e);
void shared_ring_free(struct shared_ring *r); /* NULL is fine */

/* What was written since the last time. */
void shared_ring_read(struct shared_ring *r, struct ring_reading *reading);

/* The process has ended, and all was read: what is open ends now. */
void shared_ring_end(struct shared_ring *r, const struct ring_reading *reading);

/* What is open now. */
void shared_ring_each_open(struct shared_ring *r, const struct ring_reading *reading);

#endif
