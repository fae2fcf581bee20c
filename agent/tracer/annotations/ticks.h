/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates a ring's clock to CLOCK_MONOTONIC_RAW. Now and then the CPU's counter is read together with the
 * raw clock; times in between are on the straight line between two readings. Its error is the width of a
 * reading, some 50 ns.
 */
#ifndef AGENT_TRACER_ANNOTATIONS_TICKS_H
#define AGENT_TRACER_ANNOTATIONS_TICKS_H

#include <stdbool.h>
#include <stdint.h>

struct ticks_reading {
	uint64_t ticks;
	int64_t raw_ns;
};

struct ticks_map {
	struct ticks_reading first, before,
		last; /* `first` gives the rate for times earlier than `before` */
};

/* Zeroed: no reading yet. Adds one. */
void ticks_map_read(struct ticks_map *m);
void ticks_map_add(struct ticks_map *m, struct ticks_reading r); /* the same with a given one */

/* `clock` is an enum tutti_clock; any number of ticks. 0 if they cannot be translated. */
int64_t ticks_to_raw(const struct ticks_map *m, uint32_t clock, uint64_t ticks);

/* Whether this machine can translate that clock. */
bool ticks_is_known(uint32_t clock);

#endif
