/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of one ring, as bytes of a process that is not trusted, become annotations. Begins and ends are
 * matched here: a scope's end names its begin, so that what is lost in between costs no other scope. Pure.
 */
#ifndef AGENT_TRACER_ANNOTATIONS_DECODER_H
#define AGENT_TRACER_ANNOTATIONS_DECODER_H

#include "agent/tracer/annotations/note.h"
#include "agent/tracer/annotations/ticks.h"

#define DECODER_LANES_MAX  256
#define DECODER_OPEN_MAX   1024 /* scopes of a ring that are open at once */
#define DECODER_RANGES_MAX 256 /* the same of ranges */

struct decoder;

struct decoder_conf {
	int32_t pid;
	uint32_t lanes; /* up to DECODER_LANES_MAX */
	uint32_t clock;
	/* The thread's number here from that in its own PID namespace. */
	int32_t (*thread_of)(void *arg, int32_t tid);
	note_fn fn; /* gets the annotations, borrowed; of a lane in order of their ends */
	void *arg;
};

struct decoder *decoder_new(const struct decoder_conf *conf);
void decoder_free(struct decoder *d); /* NULL is fine */

/*
 * The lane's next slots. Returns how many of them were used: those of a record that is not whole yet come again
 * with the next call. Times outside [now - 10 min, now + 1 s] are refused.
 */
size_t decoder_add(struct decoder *d, uint32_t lane, const struct tutti_slot *slots, size_t n,
		   const struct ticks_map *map, int64_t now_raw_ns);

/* Slots of the lane are missing here; the thread it has now. */
void decoder_gap(struct decoder *d, uint32_t lane);
void decoder_set_thread(struct decoder *d, uint32_t lane, uint32_t tid, const char name[16]);
bool decoder_has_thread(const struct decoder *d, uint32_t lane);

/* The process has ended: what was open ends unfinished. */
void decoder_end(struct decoder *d, int64_t now_raw_ns);

/* What is open now, with that end. */
void decoder_each_open(const struct decoder *d, int64_t now_raw_ns, note_fn fn, void *arg);

/* Slots and records so far that were no records, or that nothing could be made of. */
uint64_t decoder_damaged(const struct decoder *d);

#endif
