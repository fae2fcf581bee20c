/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which training step this host is at, and how long steps take: from the marks that a process puts on
 * the timeline as each step begins. A mark is such a one if its text ends with metadata as annotations
 * have it, and step_num is among that: "train#step_num=12#", "train#_r=1,step_num=12#".
 *
 * Where several processes mark steps, one of them is followed: until it falls silent. Loop thread.
 */
#ifndef AGENT_MARKS_STEPS_H
#define AGENT_MARKS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct steps;
struct mark;

struct step_state {
	bool known; /* false: the rest says nothing */
	int64_t step; /* the last that began */
	int64_t raw_ns; /* when: CLOCK_MONOTONIC_RAW */
	int64_t period_ns; /* from one to the next, on average; 0 = only one was seen yet */
	int64_t jitter_ns; /* by so much they differ: standard deviation */
};

/* The number if the mark is one of a step. `*name_len`: of the text without the metadata. */
bool step_of_mark(const char *text, int64_t *step, size_t *name_len);

struct steps *steps_new(void);
void steps_free(struct steps *s);
void steps_add(struct steps *s, const struct mark *mark); /* any mark; others are ignored */
struct step_state steps_state(const struct steps *s);

/* fn is called when a step has begun; one at a time, NULL = nobody. */
void steps_watch(struct steps *s, void (*fn)(void *arg), void *arg);

#endif
