/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks: instant events that processes put on the host's timeline through the local socket. A ring of
 * the newest LIMIT_MARKS, always on. Loop thread.
 */
#ifndef AGENT_MARKS_MARKS_H
#define AGENT_MARKS_MARKS_H

#include <stdbool.h>
#include <stdint.h>

struct marks;
struct steps;

struct mark {
	int64_t raw_ns; /* CLOCK_MONOTONIC_RAW where it happened */
	int32_t pid, tid; /* 0 = unknown */
	const char *text;
};

struct marks *marks_new(void);
void marks_free(struct marks *m);
void marks_add(struct marks *m, const struct mark *mark); /* the text is copied */

/* Marks with from <= raw_ns < to, oldest first; return false to stop. */
void marks_each(const struct marks *m, int64_t from_raw_ns, int64_t to_raw_ns,
		bool (*fn)(void *arg, const struct mark *mark), void *arg);

/* The training steps among the marks; lives as long as they do. */
struct steps *marks_steps(const struct marks *m);

/* How many marks were overwritten in all. */
uint64_t marks_dropped(const struct marks *m);

#endif
