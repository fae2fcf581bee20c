/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training step of this host and how long steps take, from the marks or annotations that a process puts on
 * the timeline when a step begins. A mark begins a step if its text ends with metadata in the form of
 * annotations and the metadata has step_num: "train#step_num=12#", "train#_r=1,step_num=12#".
 *
 * If several processes mark steps, one is followed until it is silent. Loop thread.
 */
#ifndef AGENT_MARKS_STEPS_H
#define AGENT_MARKS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct steps;
struct step_mark;

struct step_state {
	bool known; /* false: the rest is not set */
	int64_t step; /* the newest that began */
	int64_t raw_ns; /* its begin, on CLOCK_MONOTONIC_RAW */
	int64_t period_ns; /* average from one begin to the next; 0 = only one was seen */
	int64_t jitter_ns; /* standard deviation of the periods */
	/* from marks_add_counted(), whose steps are over when it is called: what the process does now is not known */
	bool counted;
};

/* True if a mark with this text begins a step; `*name_len` is the length of the text before the metadata. */
bool step_of_mark(const char *text, int64_t *step, size_t *name_len);

struct steps *steps_new(void);
void steps_free(struct steps *s);
void steps_add(struct steps *s,
	       const struct step_mark *begin); /* in the order in which the agent learns of them */
/* As marks_add_counted(). Changes nothing while a process that marks its steps is followed and is not silent. */
void steps_set_counted(struct steps *s, int32_t pid, int64_t first, int64_t n, int64_t from_raw_ns,
		       int64_t to_raw_ns);
struct step_state steps_state(const struct steps *s);

/* fn is called when a step begins. It replaces the one before; NULL = none. */
void steps_watch(struct steps *s, void (*fn)(void *arg), void *arg);

#endif
