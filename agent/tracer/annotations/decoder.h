/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes annotations from the records of one ring, which are bytes of an untrusted process. Matches begins and
 * ends: the end of a scope names its begin, so lost records in between affect no other scope. Pure.
 */
#ifndef AGENT_TRACER_ANNOTATIONS_DECODER_H
#define AGENT_TRACER_ANNOTATIONS_DECODER_H

#include "agent/tracer/annotations/note.h"
#include "agent/tracer/annotations/ticks.h"

#define DECODER_LANES_MAX 256
#define DECODER_OPEN_MAX  1024 /* scopes of a ring that are open at once */
#define DECODER_OPEN_OF_USER_MAX \
	16384 /* of all rings of a user: 200 bytes each, and more for a moment in a capture */
#define DECODER_RANGES_MAX 256 /* the same for ranges */

struct decoder;

struct decoder_conf {
	int32_t pid;
	uint32_t lanes; /* up to DECODER_LANES_MAX */
	uint32_t clock;
	int64_t raw_ahead_ns; /* if the clock is TUTTI_CLOCK_RAW: how far it is ahead of the machine's */
	size_t *open_of_user; /* how many scopes are open in all rings of this one's user; changed, there until the end */
	/* The thread's id here, from its id in its own PID namespace. */
	int32_t (*thread_of)(void *arg, int32_t tid);
	note_fn fn; /* gets the annotations, borrowed; those of a lane in the order of their ends */
	void *arg;
};

struct decoder *decoder_new(const struct decoder_conf *conf);
void decoder_free(struct decoder *d); /* NULL is fine */

/*
 * Takes the lane's next slots. Returns how many were used; the caller gives the others again, because the
 * last record is not complete yet. Times outside [now - 10 min, now + 1 s] are refused.
 */
size_t decoder_add(struct decoder *d, uint32_t lane, const struct tutti_slot *slots, size_t n,
		   const struct ticks_map *map, int64_t now_raw_ns);

/* Slots of the lane are missing before the next ones. decoder_set_thread() sets the lane's present thread. */
void decoder_gap(struct decoder *d, uint32_t lane);
void decoder_set_thread(struct decoder *d, uint32_t lane, uint32_t tid, const char name[16]);
bool decoder_has_thread(const struct decoder *d, uint32_t lane);

/* The process has ended: open scopes and ranges end as unfinished. */
void decoder_end(struct decoder *d, int64_t now_raw_ns);

/* Calls fn for every scope and range that is open now, with now_raw_ns as its end. */
void decoder_each_open(const struct decoder *d, int64_t now_raw_ns, note_fn fn, void *arg);

/* How many slots and records were malformed so far. */
uint64_t decoder_damaged(const struct decoder *d);

#endif
