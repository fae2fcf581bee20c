/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks: instant events that processes put on the host's timeline through the local socket. A ring keeps
 * the newest ones, also while no capture is under way. Loop thread.
 */
#ifndef AGENT_MARKS_MARKS_H
#define AGENT_MARKS_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tracer/ring.h"

/* How old a mark may be when it arrives, and how far its stamp may lie in the future. */
#define MARK_AGE_NS    (600 * INT64_C(1000000000))
#define MARK_FUTURE_NS INT64_C(1000000000)

struct marks;
struct steps;

struct mark {
	int64_t raw_ns; /* when it happened, on CLOCK_MONOTONIC_RAW */
	int32_t pid, tid; /* 0 = unknown */
	const char *text;
};

/* The begin of a training step. */
struct step_mark {
	int64_t raw_ns, step;
	int32_t pid;
};

/* `begin_raw_ns`: now. A window that begins earlier is not complete. */
struct marks *marks_new(const struct ring_limits *limits, int64_t begin_raw_ns);
void marks_free(struct marks *m); /* NULL is fine */

/* Adds a copy of the mark. False: it came too late for the ring, and is counted among the ring's losses. */
bool marks_add(struct marks *m, const struct mark *mark);

/* The marks before t1_raw_ns were gathered for a window that begins at t0_raw_ns: those of it that come from now on are
 * late. */
void marks_note_gathered(struct marks *m, int64_t t0_raw_ns, int64_t t1_raw_ns);

/* How many late marks there are of before `raw_ns`, which no later window from there on has; forgets all late ones. */
uint64_t marks_take_late(struct marks *m, int64_t raw_ns);

/* Adds the begin of a step from a program's annotation; it is no mark. */
void marks_add_step(struct marks *m, const struct step_mark *step);

/* Adds `n` steps that a process counted itself and that are over: the first, number `first`, began at
 * from_raw_ns, and the last one ended at to_raw_ns. They are no marks. */
void marks_add_counted(struct marks *m, int32_t pid, int64_t first, int64_t n, int64_t from_raw_ns,
		       int64_t to_raw_ns);

/* The ring of the marks. mark_of_record() decodes a record of its cuts, on any thread; the text is borrowed
 * from the record. */
struct ring *marks_ring(const struct marks *m);
struct mark mark_of_record(const struct ring_record *record);

/* Calls fn for the begins of steps with from <= raw_ns < to, oldest first. They are kept longer than the
 * marks: for the duration of the longest capture. */
void marks_each_step(const struct marks *m, int64_t from_raw_ns, int64_t to_raw_ns,
		     void (*fn)(void *arg, const struct step_mark *step), void *arg);

/* The training steps among the marks; lives as long as they do. */
struct steps *marks_steps(const struct marks *m);

#endif
