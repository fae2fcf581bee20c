/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of this host that have a ring of annotations, in containers too: they send it, or it is found by the
 * name of the ring's memfd among a process's descriptors. A process is searched when it appears, then after 0.25, 0.5,
 * 1, ... 30 s. When a capture is armed, all processes are searched, except those that were searched less than 5 s ago.
 * One with as many descriptors as at its last search is not searched again within 30 s, where the kernel tells the
 * number.
 * Blocks on /proc; for a worker.
 */
#ifndef AGENT_TRACER_ANNOTATIONS_RINGS_H
#define AGENT_TRACER_ANNOTATIONS_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/tracer/annotations/shared_ring.h"

#define RINGS_MAX	      256 /* of all processes */
#define RINGS_PER_USER_MAX    192
#define RINGS_PER_PROCESS_MAX 8 /* a library that includes the header may have a ring of its own */

struct rings;

struct rings *rings_new(void);
void rings_free(struct rings *rs); /* NULL is fine */

/* Searches for rings in the processes whose time has come, or in all unless they were searched lately. */
void rings_look(struct rings *rs, int64_t now_mono_ns, bool all);

/* Any thread: ends a search that is under way, and makes later ones find nothing. To be called before the end. */
void rings_stop_looking(struct rings *rs);

/* A ring that process `pid` of user `uid` sent. Takes `fd`. The process may have ended meanwhile. False: there is no room for it. */
bool rings_add(struct rings *rs, int fd, int32_t pid, uint32_t uid);

/* Reads all rings into `reading`, each time beginning with another ring. Rings of processes that have ended are
 * read to their end and forgotten. */
void rings_read(struct rings *rs, struct ring_reading *reading);

/* Passes every open scope and range of all rings to reading->fn. */
void rings_each_open(struct rings *rs, const struct ring_reading *reading);

size_t rings_count(const struct rings *rs);

/* How many of the last search, or of those before of processes that are not searched again yet, there was no room for. */
size_t rings_left_out(const struct rings *rs);

/* How many have threads that found no lane in them. */
size_t rings_crowded(const struct rings *rs);

/* Some processes cannot be looked at: CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH is missing. */
bool rings_is_incomplete(const struct rings *rs);

#endif
